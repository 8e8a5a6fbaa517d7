//! What targets mean.

use graph::scope::Target;

use crate::support::config::target;

#[test]
fn targets_read_back() {
    for text in [
        "t.n",
        "t.n[0]",
        "data.t.n[\"a.b\"]",
        "module.a",
        "module.a[\"x\"].module.b[0]",
        "module.a[\"$${x}\"].module.b.data.t.n[1]",
        "ephemeral.t.n",
        "module.a.ephemeral.t.n",
    ] {
        assert_eq!(target(text).to_string(), text);
    }
    for text in ["", "*", "t", "module", "t.n.x", "t.n[x]", "module.a.t"] {
        assert!(text.parse::<Target>().is_err(), "{text:?}");
    }
    assert_eq!(Target::Everything.to_string(), "*");
}

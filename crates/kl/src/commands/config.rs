//! `kl config`: every setting and where it comes from.

use std::fmt::Display;

use serde::Serialize;

use super::Context;
use crate::config::Sourced;
use crate::failure::Result;
use crate::output::table::Table;

#[derive(Serialize)]
struct Setting {
    value: Option<String>,
    origin: Option<String>,
}

/// The documented JSON: one member per setting, in this order.
#[derive(Serialize)]
struct View {
    server: Setting,
    workspace: Setting,
    environment: Setting,
    state: Setting,
    protocol: Setting,
    token: Setting,
    wait: Setting,
    confirm: Setting,
    fallback: Setting,
    iac_binary: Setting,
}

pub(super) fn run(context: &Context) -> Result<()> {
    let settings = &context.settings;
    let view = View {
        server: optional(settings.server.as_ref()),
        workspace: optional(settings.workspace.as_ref()),
        environment: optional(settings.environment.as_ref()),
        state: optional(settings.state.as_ref()),
        protocol: optional(Some(&settings.protocol)),
        // Its `Display` is the mask.
        token: optional(settings.credential.as_ref()),
        wait: optional(Some(&settings.wait)),
        confirm: optional(Some(&settings.confirm)),
        fallback: optional(Some(&settings.fallback)),
        iac_binary: optional(Some(&settings.iac_binary)),
    };
    context.printer.result(&view, || {
        let mut table = Table::new(&["SETTING", "VALUE", "FROM"]);
        for (name, setting) in [
            ("server", &view.server),
            ("workspace", &view.workspace),
            ("environment", &view.environment),
            ("state", &view.state),
            ("protocol", &view.protocol),
            ("token", &view.token),
            ("wait", &view.wait),
            ("confirm", &view.confirm),
            ("fallback", &view.fallback),
            ("iac_binary", &view.iac_binary),
        ] {
            let text = |part: &Option<String>| part.clone().unwrap_or_else(|| "-".to_owned());
            table.row([name.to_owned(), text(&setting.value), text(&setting.origin)]);
        }
        table.finish()
    })?;
    for note in &settings.notes {
        context.printer.note(&format!("note: {note}"));
    }
    Ok(())
}

fn optional<T: Display>(setting: Option<&Sourced<T>>) -> Setting {
    Setting {
        value: setting.map(|found| found.value.to_string()),
        origin: setting.map(|found| found.origin.to_string()),
    }
}

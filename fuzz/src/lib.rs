//! What each fuzz target checks; `checks` is also compiled into a test of `tfstate`, so that a
//! stable compiler runs it over mutated seeds.

pub mod checks;

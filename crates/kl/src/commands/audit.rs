//! `kl audit`: what was changed or revealed in the workspace, and by whom.

use protocol::tenancy::AuditEntry;
use serde::Serialize;

use super::Context;
use crate::cli::AuditArgs;
use crate::failure::{Failure, Result};
use crate::output::table::Table;
use crate::output::time::stamp;

#[derive(Serialize)]
struct View {
    entries: Vec<AuditEntry>,
}

pub(super) async fn run(args: AuditArgs, context: &Context) -> Result<()> {
    let client = context.client()?;
    let workspace = context.workspace(&client).await?;
    let wanted = if args.limit == 0 {
        usize::MAX
    } else {
        args.limit
    };
    let mut entries = Vec::new();
    let mut cursor = None;
    while entries.len() < wanted {
        let page = client
            .list_audit(&workspace, cursor.as_deref())
            .await
            .map_err(|error| {
                Failure::from(error).context(format!("could not read the audit log of {workspace}"))
            })?;
        entries.extend(page.entries);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    entries.truncate(wanted);
    let view = View { entries };
    context.printer.result(&view, || {
        let mut table = Table::new(&["WHEN", "WHO", "ACTION", "TARGET", "RESULT"]);
        for entry in &view.entries {
            table.row([
                stamp(entry.at),
                entry.display.clone(),
                entry.action.clone(),
                entry.target.clone(),
                entry.result.clone(),
            ]);
        }
        table.finish()
    })
}

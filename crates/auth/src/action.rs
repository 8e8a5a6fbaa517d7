//! Everything a caller may ask for, and which roles allow it.
//!
//! The table here is the whole of the role model. To add an action: a variant, a line in `roles`, a line in `ALL`
//! (the compiler asks for the first two, a test for the third).

use crate::{Role, Roles};

/// One thing that a caller asks for. Every route declares one; a handler asks for more where it does more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// See who one is. Anybody with a valid token.
    ReadSelf,

    /// Make a workspace. Operators only.
    CreateWorkspace,
    /// List the workspaces of the deployment. Operators only.
    ListWorkspaces,
    /// Suspend or resume a workspace. Operators only.
    UpdateWorkspace,

    /// See a workspace's name and lifecycle.
    ReadWorkspace,
    /// List those environments of a workspace in which one has a role.
    ListEnvironments,
    /// Make an environment.
    CreateEnvironment,
    /// List members and their grants.
    ListMembers,
    /// Make a member.
    CreateMember,
    /// Give or take grants.
    ChangeGrants,
    /// List tokens, without secrets.
    ListTokens,
    /// Make a token of a member.
    CreateToken,
    /// Revoke a token of a member.
    RevokeToken,
    /// Read the audit log.
    ReadAudit,

    /// See an environment's settings.
    ReadEnvironment,
    /// Change an environment's settings.
    UpdateEnvironment,

    /// List states.
    ListStates,
    /// See a state's status, versions and resources without values.
    ReadMetadata,
    /// See root outputs; sensitive ones masked unless [`Action::ReadSensitiveOutputs`] is allowed too.
    ReadOutputs,
    /// See the values of sensitive root outputs.
    ReadSensitiveOutputs,
    /// See attribute values of resources, sensitive ones on request.
    ReadValues,
    /// Read whole documents.
    ReadDocument,
    /// Read what Terraform reads: the whole document, or for `outputs` one with nothing but the root outputs.
    ReadForTerraform,
    /// Write a new version.
    WriteState,
    /// Bring a document in as the next version.
    ImportState,
    /// Take a lock.
    LockState,
    /// Give up one's own lock.
    UnlockState,
    /// Break another's lock.
    BreakLock,
    /// Take or remove an administrative lock.
    ChangeAdminLock,
    /// Make an old version current again.
    RollBackState,
    /// Give a version a name, or take one away.
    ChangeTags,
    /// Ask for an archive of a state, and download it: every version with every value, in a file that leaves.
    ExportState,
    /// Restore a state from an archive.
    ImportArchive,
    /// Take an archive that no trusted key has signed.
    ImportForeignArchive,
    /// See exports and imports, and how far they are.
    ReadJobs,
    /// End an export or an import: one's own, or with [`Action::ManageJobs`] another's.
    CancelJob,
    /// End another's export or import, or go on with another's upload.
    ManageJobs,
    /// Delete a state.
    DeleteState,
    /// See deleted states and bring them back.
    UndeleteState,

    /// Begin a run, or wake the one of a saved plan. One that may write asks for [`Action::WriteState`] too.
    BeginRun,
    /// See a run without its backend.
    ReadRun,
    /// Renew, extend or finish one's own run.
    ContinueRun,
    /// End a run: one's own, or with [`Action::BreakLock`] another's.
    AbortRun,
    /// Read, lock and write the slice of one's own run, as Terraform does.
    UseRun,
}

impl Action {
    /// Every action.
    pub const ALL: &[Self] = &[
        Self::ReadSelf,
        Self::CreateWorkspace,
        Self::ListWorkspaces,
        Self::UpdateWorkspace,
        Self::ReadWorkspace,
        Self::ListEnvironments,
        Self::CreateEnvironment,
        Self::ListMembers,
        Self::CreateMember,
        Self::ChangeGrants,
        Self::ListTokens,
        Self::CreateToken,
        Self::RevokeToken,
        Self::ReadAudit,
        Self::ReadEnvironment,
        Self::UpdateEnvironment,
        Self::ListStates,
        Self::ReadMetadata,
        Self::ReadOutputs,
        Self::ReadSensitiveOutputs,
        Self::ReadValues,
        Self::ReadDocument,
        Self::ReadForTerraform,
        Self::WriteState,
        Self::ImportState,
        Self::LockState,
        Self::UnlockState,
        Self::BreakLock,
        Self::ChangeAdminLock,
        Self::RollBackState,
        Self::ChangeTags,
        Self::ExportState,
        Self::ImportArchive,
        Self::ImportForeignArchive,
        Self::ReadJobs,
        Self::CancelJob,
        Self::ManageJobs,
        Self::DeleteState,
        Self::UndeleteState,
        Self::BeginRun,
        Self::ReadRun,
        Self::ContinueRun,
        Self::AbortRun,
        Self::UseRun,
    ];

    /// The roles that allow the action. This is the role model; there is no other place.
    #[must_use]
    pub const fn roles(self) -> Roles {
        use Role::{Admin, Auditor, Maintainer, Outputs, Reader, Viewer, Writer};

        const ADMINS: Roles = Roles::of(&[Admin]);
        const MAINTAINERS: Roles = Roles::of(&[Maintainer, Admin]);
        const WRITERS: Roles = Roles::of(&[Writer, Maintainer, Admin]);
        const READERS: Roles = Roles::of(&[Reader, Writer, Maintainer, Admin]);
        const VIEWERS: Roles = Roles::of(&[Viewer, Reader, Writer, Maintainer, Admin]);

        match self {
            // Not a matter of roles: anybody, or operators.
            Self::ReadSelf
            | Self::CreateWorkspace
            | Self::ListWorkspaces
            | Self::UpdateWorkspace => Roles::NONE,

            // Whoever has any business in a workspace may know what it and its environments are called.
            Self::ReadWorkspace | Self::ListEnvironments => Roles::ALL,

            Self::CreateEnvironment
            | Self::UpdateEnvironment
            | Self::ListMembers
            | Self::CreateMember
            | Self::ChangeGrants
            | Self::ListTokens
            | Self::CreateToken
            | Self::RevokeToken => ADMINS,

            Self::ReadAudit => Roles::of(&[Auditor, Admin]),

            Self::ReadEnvironment | Self::ListStates | Self::ReadMetadata | Self::ReadRun => {
                VIEWERS
            }
            Self::ReadOutputs => VIEWERS.and(Outputs),
            Self::ReadSensitiveOutputs => READERS.and(Outputs),
            Self::ReadValues
            | Self::ReadDocument
            | Self::BeginRun
            | Self::ContinueRun
            | Self::UseRun => READERS,
            Self::ReadForTerraform => READERS.and(Outputs),
            // Deleting is as harmless as writing an empty document: the history stays.
            Self::WriteState
            | Self::ImportState
            | Self::LockState
            | Self::UnlockState
            | Self::ChangeTags
            | Self::ImportArchive
            | Self::ReadJobs
            | Self::CancelJob
            | Self::DeleteState
            | Self::UndeleteState
            | Self::AbortRun => WRITERS,
            Self::BreakLock
            | Self::ChangeAdminLock
            | Self::RollBackState
            | Self::ExportState
            | Self::ManageJobs => MAINTAINERS,
            Self::ImportForeignArchive => ADMINS,
        }
    }

    /// Whether operators may do it. They make workspaces and see nothing inside them.
    #[must_use]
    pub const fn for_operators(self) -> bool {
        matches!(
            self,
            Self::ReadSelf
                | Self::CreateWorkspace
                | Self::ListWorkspaces
                | Self::UpdateWorkspace
                | Self::ReadWorkspace
        )
    }

    /// Whether the token of a run may do it, in its own run.
    #[must_use]
    pub const fn for_runs(self) -> bool {
        matches!(self, Self::UseRun)
    }

    /// Whether a grant in a single environment is enough although the action is on the workspace.
    pub(crate) const fn any_environment_suffices(self) -> bool {
        matches!(self, Self::ReadWorkspace | Self::ListEnvironments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_actions_is_complete() {
        // The variants are numbered from 0 in the order of declaration, which is the order of the list.
        let last = *Action::ALL.last().unwrap();
        assert_eq!(last, Action::UseRun);
        assert_eq!(last as usize + 1, Action::ALL.len());
        assert!(Action::ALL.is_sorted());
    }

    #[test]
    fn each_of_the_ladder_roles_allows_what_the_one_below_allows() {
        let ladder = [
            Role::Viewer,
            Role::Reader,
            Role::Writer,
            Role::Maintainer,
            Role::Admin,
        ];
        for pair in ladder.windows(2) {
            for action in Action::ALL {
                let roles = action.roles();
                assert!(
                    !roles.contains(pair[0]) || roles.contains(pair[1]),
                    "{action:?} {pair:?}"
                );
            }
        }
    }

    #[test]
    fn an_auditor_reads_the_audit_log_and_no_state() {
        let allowed: Vec<_> = Action::ALL
            .iter()
            .filter(|action| action.roles().contains(Role::Auditor))
            .collect();
        assert_eq!(
            allowed,
            [
                &Action::ReadWorkspace,
                &Action::ListEnvironments,
                &Action::ReadAudit
            ]
        );
    }
}

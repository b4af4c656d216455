//! Reports that programs of agents are confined, or that this machine cannot confine them.

use std::sync::Once;

use slipform_tools::ProjectPolicy;

/// Logs a warning if programs should be confined and cannot be. Runs go on: the kernel is not the user's choice.
pub(crate) fn warn_if_missing(policy: &ProjectPolicy) {
    static WARNING: Once = Once::new();
    if let Some(warning) = warning(policy, slipform_process::is_confinement_available) {
        WARNING.call_once(|| tracing::warn!("{warning}"));
    }
}

fn warning(policy: &ProjectPolicy, is_available: impl Fn() -> bool) -> Option<&'static str> {
    (!policy.has_free_programs && !is_available()).then_some(
        "this kernel has no Landlock, so programs that agents start can use all files of the user; \
         use Linux 5.13 or newer, or set [tools] confine_programs = false to accept it",
    )
}

/// Adds where to look to the message of a confined program that was denied a file.
pub(crate) fn explain(message: &mut String) {
    let is_denied =
        ["Permission denied", "EACCES", "PermissionError"].iter().any(|sign| message.contains(sign));
    if is_denied && slipform_process::is_confinement_available() {
        message.push_str(
            "; Slipform confines programs: they create files only in folders of the project, see [tools] confine_programs",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_confinement_is_reported_unless_settings_accept_it() {
        let policy = ProjectPolicy::default();
        assert!(warning(&policy, || false).is_some_and(|text| text.contains("no Landlock")));
        assert_eq!(warning(&policy, || true), None);
        let free = ProjectPolicy { has_free_programs: true, ..policy };
        assert_eq!(warning(&free, || false), None);
    }
}

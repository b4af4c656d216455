//! Reports once that this machine cannot confine the programs that agents start.

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

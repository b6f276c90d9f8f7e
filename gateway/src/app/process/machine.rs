//! The machine that the gateway runs on.

/// Returns the machine's name, or `None` if it has none.
pub(in crate::app) fn machine_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

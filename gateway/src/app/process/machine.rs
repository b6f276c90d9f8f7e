//! The machine that the gateway runs on.

/// Returns the machine's name, or `None` if it has none.
pub(in crate::app) fn machine_name() -> Option<String> {
    // A sandbox may show no /proc/sys.
    let name = rustix::system::uname().nodename().to_str().ok()?.to_owned();
    (!name.is_empty() && name != "(none)").then_some(name)
}

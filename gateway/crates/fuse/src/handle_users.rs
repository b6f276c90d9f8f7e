//! The processes that use a handle.
//!
//! The kernel sends a close once for each process that has a copy of the descriptor, and a child has a copy of all that
//! its parent has open until it runs another program. Only a close by a process that opened the file, or wrote to it
//! through this handle, says that the written bytes are complete.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Mutex;

use rustix::fs::OFlags;
use tidegate_telemetry::locks::Recover as _;

/// The most threads that are known by themselves; the processes of the others are looked up again.
const MAX_THREADS: usize = 64;

/// The most processes that are known of a handle. If more use it, all count.
const MAX_PROCESSES: usize = 256;

/// The processes that opened a handle, or wrote through it.
#[derive(Debug, Default)]
pub(crate) struct HandleUsers(Mutex<KnownProcesses>);

#[derive(Debug, Default)]
struct KnownProcesses {
    /// The numbers of the last threads, as the kernel sends them.
    threads: VecDeque<u32>,
    processes: Vec<u32>,
    /// Whether there were more processes.
    is_full: bool,
}

impl KnownProcesses {
    /// Notes a thread, and its process if that can be seen.
    fn note(&mut self, thread: u32, process: Option<u32>) {
        if self.threads.len() >= MAX_THREADS {
            self.threads.pop_front();
        }
        self.threads.push_back(thread);
        let new = process.filter(|process| !self.processes.contains(process));
        match new {
            Some(process) if self.processes.len() < MAX_PROCESSES => self.processes.push(process),
            Some(_) => self.is_full = true,
            None => {}
        }
    }
}

impl HandleUsers {
    /// Notes that this thread uses the handle.
    pub(crate) fn add(&self, thread: u32) {
        let mut known = self.0.lock().recover();
        if known.threads.contains(&thread) {
            return;
        }
        known.note(thread, process_of(thread));
    }

    /// Returns whether a thread is of one of these processes, or of one that cannot be seen: a close that did not count
    /// would return before the bytes are safe.
    pub(crate) fn have(&self, thread: u32) -> bool {
        let known = self.0.lock().recover();
        known.is_full
            || known.threads.contains(&thread)
            || process_of(thread).is_none_or(|process| known.processes.contains(&process))
    }
}

/// Returns the process of a thread (proc_pid_status(5)). `None`: it is in another PID namespace (the thread is 0), or
/// another user's and hidden (`hidepid` of proc(5)).
fn process_of(thread: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let mut lines = status.lines();
    let number = lines.find_map(|line| line.strip_prefix("Tgid:"))?;
    number.trim().parse().ok()
}

/// Returns whether the process of a thread has a descriptor that writes to the file of this number; one that it is
/// closing does not count (proc_pid_fdinfo(5)). `None`: that cannot be seen. Of another user's process it is seen with
/// `CAP_SYS_PTRACE` alone, of one in another PID namespace never.
pub(crate) fn writes_elsewhere(thread: u32, ino: u64) -> Option<bool> {
    for entry in std::fs::read_dir(format!("/proc/{thread}/fdinfo")).ok()? {
        match std::fs::read_to_string(entry.ok()?.path()) {
            Ok(info) if writes_to(&info, ino) => return Some(true),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return None,
            // Another file's, or closed meanwhile.
            _ => {}
        }
    }
    Some(false)
}

/// Returns whether a descriptor with this `fdinfo` writes to the file of this number.
fn writes_to(info: &str, ino: u64) -> bool {
    let field = |name| {
        let mut lines = info.lines();
        lines.find_map(|line| line.strip_prefix(name).map(str::trim))
    };
    let flags = field("flags:").and_then(|flags| u32::from_str_radix(flags, 8).ok());
    let access = flags.map(|flags| OFlags::from_bits_retain(flags) & OFlags::ACCMODE);
    // Linux before 5.14 tells no number.
    let is_it = field("ino:").is_none_or(|it| it.parse() == Ok(ino));
    is_it && access != Some(OFlags::RDONLY)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_descriptor_that_writes_is_seen_until_it_is_closed() {
        let (file, process) = (tempfile::NamedTempFile::new(), std::process::id());
        let file = file.expect("a file");
        let reader = File::open(file.path()).expect("opened");
        let ino = reader.metadata().expect("there").ino();
        assert_eq!(writes_elsewhere(process, ino), Some(true));
        drop(file);
        assert_eq!(writes_elsewhere(process, ino), Some(false), "it is read");
        for unseen in [0, u32::MAX] {
            assert_eq!(writes_elsewhere(unseen, ino), None, "no such process");
        }
    }

    #[test]
    fn a_process_is_known_by_any_of_its_threads() {
        let (users, process) = (HandleUsers::default(), std::process::id());
        let own = std::fs::read_link("/proc/thread-self").expect("a link");
        let thread = own.file_name().and_then(|name| name.to_str());
        let thread = thread.and_then(|name| name.parse().ok()).expect("a number");
        assert_eq!(process_of(thread), Some(process));
        assert!(!users.have(process));
        users.add(thread);
        assert!(users.have(process) && users.have(thread) && !users.have(1));
    }

    #[test]
    fn a_process_that_cannot_be_seen_counts() {
        let users = HandleUsers::default();
        for opener in [0, 1, u32::MAX] {
            assert!(users.have(0) && users.have(u32::MAX - 1));
            users.add(opener);
        }
        assert!(!users.have(std::process::id()), "this one is seen");
    }

    #[test]
    fn however_many_use_a_handle_it_knows_a_bounded_number() {
        let users = HandleUsers::default();
        let note = |thread, process| users.0.lock().recover().note(thread, Some(process));
        let unknown = std::process::id();
        for thread in 0..10_000 {
            note(u32::MAX - thread, 1);
        }
        assert!(!users.have(unknown), "all are of one process");
        for process in 0..10_000 {
            note(u32::MAX, u32::MAX - process);
        }
        assert!(users.have(unknown), "it may be one of them");
        let known = users.0.lock().recover();
        assert!(known.threads.len() <= MAX_THREADS);
        assert!(known.processes.len() <= MAX_PROCESSES);
    }
}

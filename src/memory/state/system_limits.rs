//! What the system gives this process: memory and file descriptors. The defaults of `limits` are derived from it.
//!
//! Read at the start and at every reload; not watched.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::Path;

/// The folder of control groups, version 2.
const CGROUPS: &str = "/sys/fs/cgroup";
/// Descriptors that no connection may take: listeners, logs, the control port, the runtime's own, connections that are
/// being refused.
const RESERVED_DESCRIPTORS: usize = 192;
/// A last resort where the system has no limit on descriptors.
const MAX_CONNECTIONS: usize = 1_000_000;

/// Raises the soft limit on file descriptors to the hard one: the usual soft limit (1,024) is there for programs that use
/// `select`.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // A system that refuses leaves the limit as it was, and the default of `limits.max_connections` follows it.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// The descriptors that so many connections of clients need.
pub fn descriptors_for(connections: usize) -> usize {
    connections.saturating_mul(2).saturating_add(RESERVED_DESCRIPTORS)
}

/// The limits of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SystemLimits {
    /// The memory this process may use, bytes: the machine's, or less where its control group has a limit.
    pub memory: usize,
    /// The file descriptors this process may open; `None`: any number.
    pub descriptors: Option<usize>,
}

impl SystemLimits {
    /// Asks the system.
    pub fn read() -> Self {
        // Not /proc/meminfo: it is hidden under the unit's `ProcSubset=pid`.
        let info = rustix::system::sysinfo();
        let machine = usize::try_from(info.totalram).unwrap_or(usize::MAX);
        let machine = machine.saturating_mul(usize::try_from(info.mem_unit).unwrap_or(1).max(1));
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let memory =
            control_group_limit(Path::new(CGROUPS), &own).map_or(machine, |limit| limit.min(machine));
        let descriptors = getrlimit(Resource::Nofile).current;
        Self { memory, descriptors: descriptors.map(|count| usize::try_from(count).unwrap_or(usize::MAX)) }
    }

    /// The default of `limits.max_held_bytes`: a quarter of the memory.
    pub fn max_held_bytes(&self) -> usize {
        self.memory / 4
    }

    /// The default of `limits.max_connections`: a request needs one descriptor for its client and may need one for its
    /// provider, so clients get half of what is not reserved.
    pub fn max_connections(&self) -> usize {
        let free = self.descriptors.unwrap_or(usize::MAX).saturating_sub(RESERVED_DESCRIPTORS);
        (free / 2).clamp(1, MAX_CONNECTIONS)
    }
}

/// The smallest memory limit of the process's control group and of those around it. `own`: /proc/self/cgroup.
fn control_group_limit(root: &Path, own: &str) -> Option<usize> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let group = root.join(path.trim_start_matches('/'));
    let folders = group.ancestors().take_while(|folder| folder.starts_with(root));
    let limits = folders.filter_map(|folder| std::fs::read_to_string(folder.join("memory.max")).ok());
    // "max" is no number: no limit there.
    limits.filter_map(|text| text.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_of_the_control_groups_counts() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("system.slice/turnpike.service");
        std::fs::create_dir_all(&group).unwrap();
        std::fs::write(root.path().join("system.slice/memory.max"), "1000\n").unwrap();
        std::fs::write(group.join("memory.max"), "max\n").unwrap();
        let own = "0::/system.slice/turnpike.service\n";
        assert_eq!(control_group_limit(root.path(), own), Some(1000));
        std::fs::write(group.join("memory.max"), "400\n").unwrap();
        assert_eq!(control_group_limit(root.path(), own), Some(400));
        assert_eq!(control_group_limit(root.path(), "1:name=x:/\n"), None);
        assert_eq!(control_group_limit(root.path(), "0::/../../x\n"), None);
    }

    #[test]
    fn defaults_follow_the_system() {
        let limits = SystemLimits { memory: 1 << 30, descriptors: Some(1024) };
        assert_eq!((limits.max_held_bytes(), limits.max_connections()), (256 << 20, 416));
        let open = SystemLimits { memory: 1 << 30, descriptors: None };
        assert_eq!(open.max_connections(), MAX_CONNECTIONS);
        let tiny = SystemLimits { memory: 1 << 30, descriptors: Some(10) };
        assert_eq!(tiny.max_connections(), 1);
        let real = SystemLimits::read();
        assert!(real.memory > 64 << 20 && real.max_connections() > 1, "{real:?}");
    }
}

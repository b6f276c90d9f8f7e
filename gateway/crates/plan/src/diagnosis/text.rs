//! The diagnosis in plain words.

use std::fmt;

use super::{Diagnosis, DiskHelp, MIN_WRITE_FACTOR, MeasuredDisk, OriginVerdict, Stage};

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (part, rate) = &self.bottleneck;
        match self.origins[..] {
            [] => writeln!(
                f,
                "Of what was measured {part} is the slowest, with {rate}. Without the rate of an origin that \
                 says little: name a large object with --object."
            ),
            _ => writeln!(f, "The bottleneck is {part}, with {rate}."),
        }?;
        self.origins.iter().try_for_each(|verdict| verdict.fmt(f))
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Origin(name) => write!(f, "the origin {name:?}"),
            Self::Network(name) => write!(f, "the network to the origin {name:?}"),
            Self::Disk(path) => write!(f, "the disk {path:?}"),
            Self::Memory => f.write_str("the memory"),
            Self::Client => f.write_str("the client"),
        }
    }
}

impl fmt::Display for OriginVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (single, best) = (self.origin.single(), self.origin.best());
        let milliseconds = self.origin.first_byte.as_secs_f64() * 1e3;
        writeln!(f, "\nOrigin {:?}:", self.origin.name)?;
        write!(
            f,
            "- The first byte of an answer takes {milliseconds:.1} ms"
        )?;
        match &self.network {
            Some(network) => {
                let milliseconds = network.round_trip.as_secs_f64() * 1e3;
                writeln!(
                    f,
                    ", of which the round trip on the network takes {milliseconds:.1} ms."
                )
            }
            None => writeln!(f, "."),
        }?;
        match self.grows_to_the_end() {
            true => writeln!(
                f,
                "- One connection brings {single}, {} bring {best}, and more might bring more: each \
                 connection is limited, and the origin is not yet.",
                self.streams
            ),
            false if single.over(best) >= super::NEARLY_BEST_SHARE => {
                writeln!(f, "- One connection brings {single}; more bring no more.")
            }
            false => writeln!(
                f,
                "- One connection brings {single}; it takes {} to have {best}, and more bring no more.",
                self.streams
            ),
        }?;
        writeln!(
            f,
            "- Cold reads run at what the origin delivers, {best}; no disk changes that, for no reader \
             waits until something is written."
        )?;
        match self.disks[..] {
            [] => writeln!(
                f,
                "- Warm reads come from memory, as far as that reaches; there is no disk."
            ),
            _ => self
                .disks
                .iter()
                .try_for_each(|(disk, help)| self.disk(f, disk, *help)),
        }
    }
}

impl OriginVerdict {
    /// Returns whether the last step still brought clearly more than the step before.
    fn grows_to_the_end(&self) -> bool {
        match self.origin.rates[..] {
            [.., (_, before), (_, last)] => {
                last == self.origin.best() && before.over(last) < super::NEARLY_BEST_SHARE
            }
            _ => false,
        }
    }

    fn disk(&self, f: &mut fmt::Formatter<'_>, disk: &MeasuredDisk, help: DiskHelp) -> fmt::Result {
        let best = self.origin.best();
        let MeasuredDisk { path, read, .. } = disk;
        let factor = Factor(read.0.max(best.0) / read.0.min(best.0).max(1.0));
        write!(f, "- The disk {path:?} ")?;
        match help {
            DiskHelp::Faster => writeln!(
                f,
                "helps warm reads: it reads {read}, {factor} times as fast as the origin."
            ),
            DiskHelp::Spares => writeln!(
                f,
                "makes warm reads no faster: it reads {read}, about as fast as the origin. It spares \
                 the origin those requests."
            ),
            DiskHelp::SmallOnly => writeln!(
                f,
                "makes long warm reads slower: it reads {read}, {factor} times slower than the origin. \
                 A single chunk it has sooner, so it helps small objects and jumps: keep it, with a \
                 profile of disk = \"off\" for long objects."
            ),
            DiskHelp::Slower => writeln!(
                f,
                "makes warm reads slower: it reads {read}, {factor} times slower than the origin. \
                 Leave it out, and give the cache more memory instead."
            ),
        }?;
        self.writes(f, disk, help)
    }

    /// Writes whether the disk can take the bytes that stream past.
    fn writes(
        &self,
        f: &mut fmt::Formatter<'_>,
        disk: &MeasuredDisk,
        help: DiskHelp,
    ) -> fmt::Result {
        let (MeasuredDisk { write, .. }, best) = (disk, self.origin.best());
        let room = write.over(best);
        match help {
            DiskHelp::Slower | DiskHelp::SmallOnly => Ok(()),
            _ if room >= MIN_WRITE_FACTOR => Ok(()),
            _ if room >= 1.0 => writeln!(
                f,
                "  It writes {write}: it keeps up with cold reads, with little time left to be read \
                 from. Let it take what is asked for twice (disk = \"second\")."
            ),
            _ => writeln!(
                f,
                "  It writes {write}, and so takes only a part of what streams past in cold reads. \
                 Let it take what is asked for twice (disk = \"second\")."
            ),
        }
    }
}

/// A factor, printed with as many digits as are meaningful.
struct Factor(f64);

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            few if few < 10.0 => write!(f, "{few:.1}"),
            many => write!(f, "{many:.0}"),
        }
    }
}

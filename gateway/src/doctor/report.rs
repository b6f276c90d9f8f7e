//! The results, for a person, and to paste.

use std::fmt;

use tidegate_plan::diagnosis::{
    Diagnosis, MeasuredDisk, MeasuredOrigin, Measurements, NOT_MEASURED,
};

/// The place of the figure that a measurement alone does not have.
const EFFICIENCY: &str = "The share of it that readers had in the last hour is known to the running gateway: measure on \
                          its page Doctor, and read it there or in `tidegate top`.";

/// The measurements, and their meaning.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The measurements.
    pub measurements: Measurements,
    /// Their meaning.
    pub diagnosis: Diagnosis,
    /// The parts that could not be measured, with the reason; one line each.
    pub missing: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measurements {
            memory,
            disks,
            origins,
            cache,
        } = &self.measurements;
        writeln!(f, "Measured")?;
        writeln!(f, "  memory: copies {memory}")?;
        for disk in disks {
            let MeasuredDisk {
                path,
                write,
                read,
                chunk_write,
                chunk_read,
                ..
            } = disk;
            let millis = disk.chunk_time.as_secs_f64() * 1e3;
            writeln!(f, "  disk {path:?}: writes {write}, reads {read}")?;
            writeln!(
                f,
                "    chunks of {} here and there: writes {chunk_write}, reads {chunk_read}; \
                 one alone takes {millis:.2} ms",
                cache.chunk
            )?;
        }
        origins
            .iter()
            .try_for_each(|origin| write_origin(f, origin))?;
        for missing in &self.missing {
            writeln!(f, "  not measured: {missing}")?;
        }
        writeln!(f, "  not measured: {NOT_MEASURED}")?;
        writeln!(f, "\nWhat it means\n{}", self.diagnosis)?;
        if !origins.is_empty() {
            writeln!(f, "{EFFICIENCY}\n")?;
        }
        match &self.diagnosis.settings {
            None => writeln!(f, "Nothing to set follows from this."),
            Some(settings) => {
                writeln!(f, "# To set, in place of the sections of these names:")?;
                for missing in &self.missing {
                    writeln!(f, "# not measured, and so left out: {missing}")?;
                }
                write!(f, "{settings}")
            }
        }
    }
}

fn write_origin(f: &mut fmt::Formatter<'_>, origin: &MeasuredOrigin) -> fmt::Result {
    let millis = origin.first_byte.as_secs_f64() * 1e3;
    writeln!(
        f,
        "  origin {:?}: first byte after {millis:.1} ms",
        origin.name
    )?;
    for (connections, rate) in &origin.rates {
        writeln!(f, "    connections {connections:2}: {rate}")?;
    }
    Ok(())
}

//! The results, for a person, and to paste.

use std::fmt;

use tidegate_plan::diagnosis::{
    Diagnosis, MeasuredDisk, MeasuredNetwork, MeasuredOrigin, Measurements,
};

/// The place of the figure that a measurement alone does not have.
const EFFICIENCY: &str = "The share of it that readers had in the last hour is known to the running gateway: measure on \
                          its page Doctor, and read it there or in `tidegate top`.";

/// The reason why no client was measured.
const NO_CLIENT: &str =
    "the client: the page Doctor of the console measures the browser that shows it";

/// The measurements, and their meaning.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The measurements.
    pub measurements: Measurements,
    /// Their meaning.
    pub diagnosis: Diagnosis,
    /// The parts that could not be measured, with the reason; one line each.
    pub missing: Vec<String>,
    /// Whether a disk or an object that the user named is among them.
    pub lacks_named: bool,
}

impl Report {
    /// Returns the parts of the way from the bucket to the client that have no rate, with the reason; one line each.
    #[must_use]
    pub fn not_measured(&self) -> Vec<String> {
        let networks = self.measurements.networks.iter();
        let silent = networks.filter(|network| network.rate.is_none());
        let words = |network: &MeasuredNetwork| {
            let MeasuredNetwork {
                origin, interface, ..
            } = network;
            format!(
                "rate of the network to {origin:?}: the interface {interface} does not say its own"
            )
        };
        let client = match self.measurements.client {
            Some(_) => None,
            None => Some(NO_CLIENT.to_owned()),
        };
        let missing = self.missing.iter().cloned();
        missing.chain(silent.map(words)).chain(client).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measurements {
            memory,
            disks,
            origins,
            networks,
            client,
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
        networks
            .iter()
            .try_for_each(|network| write_network(f, network))?;
        if let Some(client) = client {
            writeln!(f, "  client: takes {client}")?;
        }
        for part in self.not_measured() {
            writeln!(f, "  not measured: {part}")?;
        }
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

fn write_network(f: &mut fmt::Formatter<'_>, network: &MeasuredNetwork) -> fmt::Result {
    let MeasuredNetwork {
        origin, interface, ..
    } = network;
    let millis = network.round_trip.as_secs_f64() * 1e3;
    write!(
        f,
        "  network to {origin:?}: {interface}, a round trip takes {millis:.1} ms"
    )?;
    match network.rate {
        Some(rate) => writeln!(f, ", {rate}"),
        None => writeln!(f),
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

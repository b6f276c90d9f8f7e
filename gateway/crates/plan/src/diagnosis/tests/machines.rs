//! Measurements of made-up machines, for the tests of diagnoses here and of their settings in the tests of `config`.

use super::*;

pub(crate) const MIB: u64 = 1 << 20;

pub(crate) fn mb(rate: f64) -> Rate {
    Rate(rate * 1e6)
}

/// Creates a disk that reads and writes at `rate` MB/s and takes `millis` milliseconds a chunk.
pub(crate) fn disk(path: &str, rate: f64, millis: f64) -> MeasuredDisk {
    MeasuredDisk {
        path: path.to_owned(),
        capacity: ByteSize(100 << 30),
        min_free: ByteSize(5 << 30),
        write: mb(rate),
        read: mb(rate),
        chunk_write: mb(rate * 0.8),
        chunk_read: mb(rate * 0.8),
        chunk_time: Duration::from_secs_f64(millis / 1e3),
    }
}

pub(crate) fn origin(name: &str, millis: u64, rates: &[(u32, f64)]) -> MeasuredOrigin {
    MeasuredOrigin {
        name: name.to_owned(),
        first_byte: Duration::from_millis(millis),
        rates: rates.iter().map(|(n, rate)| (*n, mb(*rate))).collect(),
    }
}

pub(crate) fn measured(disks: Vec<MeasuredDisk>, origins: Vec<MeasuredOrigin>) -> Measurements {
    Measurements {
        memory: mb(8000.0),
        disks,
        origins,
        networks: Vec::new(),
        client: None,
        cache: CacheSizes {
            memory: ByteSize(512 * MIB),
            budget: ByteSize(256 * MIB),
            chunk: ByteSize(256 << 10),
        },
    }
}

//! The price of requests at list prices: S3 Standard, us-east-1.

use crate::tally::RequestCounts;

/// The source of the prices.
pub(super) const SOURCE: &str = "prices: S3 Standard, us-east-1, https://aws.amazon.com/s3/pricing/ (requests and data retrievals), \
     2026-11: PUT, COPY, POST, LIST $0.005 and GET, HEAD $0.0004 for 1,000; DELETE is free. Bytes are not in it: in the \
     region they are free, to the internet they are $0.09 a GB";

/// Dollars for 1,000 requests of the expensive kind: PUT, COPY, POST and LIST.
const DEAR: f64 = 0.005;
/// Dollars for 1,000 requests of the cheap kind: GET, HEAD and all others.
const CHEAP: f64 = 0.0004;

/// Returns the dollars for a thousand times these requests.
pub(super) fn of_a_thousand(asked: &RequestCounts) -> f64 {
    let dear = asked.put + asked.copy + asked.multipart + asked.list;
    let cheap = asked.get + asked.head + asked.bucket + asked.other;
    dear as f64 * DEAR + cheap as f64 * CHEAP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_price_and_deletions_are_free() {
        let asked = RequestCounts {
            get: 10,
            list: 2,
            put: 3,
            delete: 100,
            ..RequestCounts::default()
        };
        assert!((of_a_thousand(&asked) - (5.0 * 0.005 + 10.0 * 0.0004)).abs() < 1e-12);
    }
}

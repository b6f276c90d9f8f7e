//! The addresses of SNS: `https://sns.REGION.amazonaws.com` and, in China, `….amazonaws.com.cn`.

use http::Uri;

/// A URL on the SNS host of a region.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AwsUrl {
    host: String,
    /// Path and query.
    target: String,
}

impl AwsUrl {
    /// Reads a URL; `None` unless it leads to the SNS host of the topic's region, by HTTPS and without a port.
    pub(super) fn of_topic(url: &str, topic: &str) -> Option<Self> {
        let mut arn = topic.split(':');
        let (partition, region) = match (arn.next()?, arn.next()?, arn.next()?, arn.next()?) {
            ("arn", partition, "sns", region) => (partition, region),
            _ => return None,
        };
        let is_region = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        if region.is_empty() || !region.bytes().all(is_region) {
            return None;
        }
        let domain = match partition {
            "aws" | "aws-us-gov" => "amazonaws.com",
            "aws-cn" => "amazonaws.com.cn",
            _ => return None,
        };
        let host = format!("sns.{region}.{domain}");
        let uri: Uri = url.parse().ok()?;
        let is_on_host = uri.scheme_str() == Some("https")
            && uri.authority().is_some_and(|one| one.as_str() == host);
        let target = uri.path_and_query()?.as_str().to_owned();
        is_on_host.then_some(Self { host, target })
    }

    /// Returns the host.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns path and query.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Returns whether it is that of a certificate.
    pub(super) fn is_certificate(&self) -> bool {
        let name = self.target.strip_prefix("/SimpleNotificationService-");
        let name = name.and_then(|name| name.strip_suffix(".pem"));
        name.is_some_and(|name| !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPIC: &str = "arn:aws:sns:eu-west-1:123456789012:media";

    #[test]
    fn only_the_sns_host_of_the_region_is_asked() {
        let url = AwsUrl::of_topic(
            "https://sns.eu-west-1.amazonaws.com/?Action=x&Token=y",
            TOPIC,
        );
        let url = url.expect("a URL of SNS");
        assert_eq!(
            (url.host(), url.target()),
            ("sns.eu-west-1.amazonaws.com", "/?Action=x&Token=y")
        );
        for bad in [
            "http://sns.eu-west-1.amazonaws.com/",
            "https://sns.us-east-1.amazonaws.com/",
            "https://sns.eu-west-1.amazonaws.com:8443/",
            "https://sns.eu-west-1.amazonaws.com@evil.example/",
            "https://evil@sns.eu-west-1.amazonaws.com/",
            "https://sns.eu-west-1.amazonaws.com.evil.example/",
            "https://sns.eu-west-1.amazonaws.com.cn/",
            "https://bucket.s3.amazonaws.com/",
            "https://127.0.0.1/",
            "//sns.eu-west-1.amazonaws.com/",
            "/SimpleNotificationService-1.pem",
            "",
        ] {
            assert_eq!(AwsUrl::of_topic(bad, TOPIC), None, "{bad}");
        }
        let china = AwsUrl::of_topic(
            "https://sns.cn-north-1.amazonaws.com.cn/",
            "arn:aws-cn:sns:cn-north-1:123456789012:media",
        );
        assert!(china.is_some());
        for topic in [
            "",
            "arn:aws:sns",
            "arn:aws:sns::1:x",
            "arn:aws:sns:evil.example/:1:x",
            "arn:x:sns:eu-west-1:1:x",
        ] {
            let found = AwsUrl::of_topic("https://sns.eu-west-1.amazonaws.com/", topic);
            assert_eq!(found, None, "{topic}");
        }
    }

    #[test]
    fn a_certificate_has_a_name_of_its_own() {
        let is_certificate = |target: &str| {
            let url = format!("https://sns.eu-west-1.amazonaws.com{target}");
            AwsUrl::of_topic(&url, TOPIC)
                .expect("a URL of SNS")
                .is_certificate()
        };
        assert!(is_certificate("/SimpleNotificationService-0123abcd.pem"));
        for bad in [
            "/",
            "/?x=.pem",
            "/SimpleNotificationService-.pem",
            "/SimpleNotificationService-1/../x.pem",
            "/SimpleNotificationService-1.pem?x",
        ] {
            assert!(!is_certificate(bad), "{bad}");
        }
    }
}

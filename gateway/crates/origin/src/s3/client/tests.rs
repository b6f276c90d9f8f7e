use std::sync::{Arc, Mutex};

use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;

use super::*;

#[test]
fn an_endpoint_is_a_url_of_a_host() {
    for good in ["http://127.0.0.1:9000", "https://s3.example.com/sub"] {
        assert_eq!(check_endpoint(good), Ok(good));
    }
    for bad in ["", "127.0.0.1:9000", "s3.example.com", "ftp://x", "http://"] {
        assert!(check_endpoint(bad).is_err(), "{bad}");
    }
}

/// A connector that records the targets of requests and sends none.
#[derive(Debug, Clone, Default)]
struct RecordingConnector(Arc<Mutex<Vec<String>>>);

impl HttpConnector for RecordingConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.uri().split('?').next().unwrap_or_default();
        self.0.lock().expect("targets").push(target.to_owned());
        let error = std::io::Error::other("nowhere");
        HttpConnectorFuture::ready(Err(ConnectorError::io(error.into())))
    }
}

#[tokio::test]
async fn the_bucket_stands_where_it_is_told_to() {
    let rows = [
        (
            Some("http://127.0.0.1:9000"),
            true,
            "http://127.0.0.1:9000/media/a%20b//c",
        ),
        (
            Some("https://s3.example.com"),
            true,
            "https://s3.example.com/media/a%20b//c",
        ),
        (
            Some("https://s3.example.com"),
            false,
            "https://media.s3.example.com/a%20b//c",
        ),
        (
            None,
            false,
            "https://media.s3.eu-west-1.amazonaws.com/a%20b//c",
        ),
        (
            None,
            true,
            "https://s3.eu-west-1.amazonaws.com/media/a%20b//c",
        ),
    ];
    for (endpoint, path_style, target) in rows {
        let nowhere = RecordingConnector::default();
        let connector = SharedHttpConnector::new(nowhere.clone());
        let http = http_client_fn(move |_, _| connector.clone());
        let mut settings = Settings::new("test", "media");
        settings.endpoint = endpoint.map(str::to_owned);
        settings.region = "eu-west-1".to_owned();
        settings.path_style = path_style;
        settings.credentials = Credentials::Anonymous;
        let timeouts = timeouts(settings.deadlines);
        let client = build_over(http, &settings, timeouts)
            .await
            .expect("valid settings");
        let sent = client
            .get_object()
            .bucket("media")
            .key("a b//c")
            .send()
            .await;
        assert!(sent.is_err());
        assert_eq!(*nowhere.0.lock().expect("targets"), [target], "sent once");
    }
}

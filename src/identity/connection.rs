//! The connection to the API server.
//!
//! kube's own client repeats a request that is turned away up to 15 times, for as long as the server says; whoever waits
//! for it can do nothing else meanwhile. Here a request is repeated for as long as a hiccup takes, and then fails: the
//! queue comes back to it, with delays that grow, and takes others first.

#![expect(clippy::disallowed_types, reason = "this is where the client is made")]

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use kube::client::Body;
use kube::client::retry::RetryPolicy;
use kube::{Client, Config};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tower::retry::Retry;
use tower::{BoxError, service_fn};

use crate::identity::fence::Fence;
use crate::metrics::REST_REQUESTS;

/// How often a request is repeated that the server had no time for.
const RETRIES: u32 = 2;
/// The first pause before a repetition.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest one.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Counts requests to the API server, each attempt by itself. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Requests(Family<[(&'static str, Cow<'static, str>); 3], Counter>);

impl Requests {
    /// Has `registry` tell them.
    pub fn register(&self, registry: &mut Registry) {
        REST_REQUESTS.register(registry, self.0.clone());
    }

    /// One request was answered with this code.
    pub(crate) fn count(&self, code: Cow<'static, str>, host: &str, method: &http::Method) {
        let labels = [
            ("code", code),
            ("host", host.to_owned().into()),
            ("method", method.to_string().into()),
        ];
        self.0.get_or_create(&labels).inc();
    }
}

/// The label of requests that got no answer, as in client-go.
const NO_ANSWER: &str = "<error>";

/// A client of the API server that `config` names, whose requests are counted, and which writes only within `fence`.
///
/// # Errors
/// When the configuration cannot be used.
pub fn connect(
    mut config: Config,
    requests: &Requests,
    fence: &Fence,
) -> Result<Client, kube::Error> {
    config.default_retry = false;
    let policy = RetryPolicy::new(FIRST_PAUSE, LONGEST_PAUSE, RETRIES, false)
        .map_err(|error| kube::Error::Service(error.into()))?;
    let namespace = config.default_namespace.clone();
    let host = config.cluster_url.authority();
    let host: Arc<str> = host.map_or("", |host| host.as_str()).into();
    let base = Client::try_from(config)?;
    let (requests, fence) = (requests.clone(), fence.clone());
    let once = service_fn(move |request: http::Request<Body>| {
        let (base, requests, host) = (base.clone(), requests.clone(), host.clone());
        let method = request.method().clone();
        let admitted = fence.admit(&method, request.uri());
        async move {
            admitted?;
            let answer = base.send(request).await;
            let code = match &answer {
                Ok(response) => response.status().as_str().to_owned().into(),
                Err(_) => NO_ANSWER.into(),
            };
            requests.count(code, &host, &method);
            answer.map_err(BoxError::from)
        }
    });
    Ok(Client::new(Retry::new(policy, once), namespace))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test is a server, too")]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::identity::request::{get, path};

    /// A server that sends everybody away for an hour; it counts how often.
    async fn busy_server() -> (Config, Arc<AtomicU32>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(AtomicU32::new(0));
        let count = asked.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                    count.fetch_add(1, Ordering::Relaxed);
                    let answer = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n";
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        break;
                    }
                }
            }
        });
        (
            Config::new(format!("http://{address}").parse().unwrap()),
            asked,
        )
    }

    #[tokio::test]
    async fn what_comes_too_late_is_not_sent() {
        let (config, asked) = busy_server().await;
        let fence = Fence::default();
        let client = connect(config, &Requests::default(), &fence).unwrap();
        fence.hold(Duration::ZERO);
        let post = http::Request::post("/api/v1/namespaces").body(Vec::new());
        let answer = client.request_text(post.unwrap()).await;
        let told = crate::error::chain(&answer.unwrap_err());
        assert!(told.contains("nothing is written"), "{told}");
        assert_eq!(asked.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn who_is_sent_away_for_an_hour_holds_nobody_up() {
        let (config, asked) = busy_server().await;
        let host = config.cluster_url.authority().unwrap().to_string();
        let requests = Requests::default();
        let client = connect(config, &requests, &Fence::default()).unwrap();
        let namespaces = path("", "v1", None, "namespaces");
        let answer = get(&client, &namespaces, "n");
        let answer = tokio::time::timeout(Duration::from_secs(30), answer).await;
        assert!(answer.expect("an answer comes soon").is_err());
        assert_eq!(asked.load(Ordering::Relaxed), RETRIES + 1);
        let mut registry = Registry::default();
        requests.register(&mut registry);
        let mut told = String::new();
        prometheus_client::encoding::text::encode(&mut told, &registry).unwrap();
        let counted = format!(
            "rest_client_requests_total{{code=\"429\",host=\"{host}\",method=\"GET\"}} 3\n"
        );
        assert!(told.contains(&counted), "{told}");
    }
}

//! Finds the API server and the credentials, and sets up connections. Also defines what a connection
//! is given: the time and randomness of retries, and the observer of requests. It must never send a
//! request.

use std::fmt;
use std::future::Future;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::{Duration, Instant};

use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt};
use kube::config::{ExecInteractiveMode, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

use super::{LiveCluster, sentences};

/// Selects the cluster, as with `kubectl`.
#[derive(Clone, Debug)]
pub struct Connection {
    /// A kubeconfig file. Default: `$KUBECONFIG`, `~/.kube/config`, or the Pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig. Default: its current context.
    pub context: Option<String>,
    /// Namespace of Cilium. Default: the namespace in which Cilium is found.
    pub cilium_namespace: Option<String>,
    /// How long to retry when a server that has answered before fails or is busy.
    pub patience: Duration,
}

/// Whether the user's kubeconfig files have a cluster of this name.
pub fn kubeconfig_has_cluster(name: &str) -> bool {
    Kubeconfig::read().is_ok_and(|kubeconfig| {
        kubeconfig
            .clusters
            .iter()
            .any(|cluster| cluster.name == name)
    })
}

/// The contexts of this kubeconfig file, or of the user's. Empty if none can be read.
pub fn contexts(kubeconfig: Option<&Path>) -> Vec<String> {
    let read = kubeconfig.map_or_else(Kubeconfig::read, Kubeconfig::read_from);
    let contexts = read.map(|read| read.contexts).unwrap_or_default();
    contexts.into_iter().map(|context| context.name).collect()
}

/// A client for the selected cluster, and the URL of the cluster's API server.
pub(super) async fn client(connection: &Connection) -> Result<(Client, String), String> {
    let mut config = config(connection).await?;
    // The client's own retries take long and report nothing.
    config.default_retry = false;
    if let Some(plugin) = &mut config.auth_info.exec
        && !std::io::stdin().is_terminal()
    {
        // Like client-go: without a terminal, a person cannot answer a prompt, and stdin may carry
        // a protocol.
        plugin.interactive_mode = Some(ExecInteractiveMode::Never);
    }
    check_token(&config)?;
    let server = shown(&config.cluster_url);
    let client = prompt_client(config).map_err(|error| sentences::of_setup(&error))?;
    Ok((client, server))
}

/// Refuses a token that no header can carry: the client's own layer panics for it.
fn check_token(config: &Config) -> Result<(), String> {
    let auth = serde_json::to_value(&config.auth_info).unwrap_or_default();
    let token = auth["token"].as_str().unwrap_or_default();
    match HeaderValue::from_str(token) {
        Ok(_) => Ok(()),
        Err(_) => Err(
            "the token of the kubeconfig has a character that no header can carry, such as a line break"
                .to_owned(),
        ),
    }
}

async fn config(connection: &Connection) -> Result<Config, String> {
    let options = KubeConfigOptions {
        context: connection.context.clone(),
        ..KubeConfigOptions::default()
    };
    let config = match &connection.kubeconfig {
        Some(path) => match Kubeconfig::read_from(path) {
            Ok(kubeconfig) => Config::from_custom_kubeconfig(kubeconfig, &options).await,
            Err(error) => Err(error),
        },
        None if connection.context.is_some() => Config::from_kubeconfig(&options).await,
        None => {
            let inferred = Config::infer().await;
            return inferred.map_err(|error| sentences::of_inference(&error));
        }
    };
    config.map_err(|error| sentences::of_setup(&error))
}

/// Scheme, host and port: a URL can have a password before its host.
fn shown(url: &Uri) -> String {
    let host = url.host().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}"));
    let scheme = url.scheme_str().unwrap_or("https");
    format!("{scheme}://{host}{}", port.unwrap_or_default())
}

/// A client that sends small packets at once. The default client makes each new connection wait
/// 40 ms for a delayed acknowledgement (RFC 896 with RFC 1122 4.2.3.2). A list of a small cluster
/// takes less.
fn prompt_client(config: Config) -> Result<Client, kube::Error> {
    if config.proxy_url.is_some() {
        // With a proxy, the default client is used: it supports the proxy, or reports that it does
        // not.
        return Client::try_from(config);
    }
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(config.connect_timeout);
    let https = config.rustls_https_connector_with_connector(connector)?;
    let sender =
        hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(https);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(sender);
    Ok(Client::new(service, config.default_namespace))
}

/// Clock for retries: time, pauses between attempts, and randomness for their jitter.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Time since a fixed moment.
    fn elapsed(&self) -> Duration;
    /// Waits for `pause`.
    fn sleep(&self, pause: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
    /// A generator of random numbers for the retries of one request.
    fn rng(&self) -> fastrand::Rng;
}

/// The clock and the randomness of the machine.
#[derive(Debug)]
pub(super) struct SystemClock(Instant);

impl SystemClock {
    pub(super) fn new() -> SystemClock {
        SystemClock(Instant::now())
    }
}

impl Clock for SystemClock {
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, pause: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(pause))
    }

    fn rng(&self) -> fastrand::Rng {
        fastrand::Rng::new()
    }
}

/// A request, after its answer or failure. Each attempt of a retried request is reported.
#[derive(Debug)]
pub struct SentRequest<'r> {
    pub method: &'r str,
    /// Path of the request, without the query.
    pub path: &'r str,
    /// The HTTP status, or why there is no answer.
    pub outcome: Result<u16, &'r str>,
    pub took: Duration,
}

/// Called with each request.
pub type OnRequest = fn(&SentRequest<'_>);

impl LiveCluster {
    /// Returns a client of the same cluster that reports each request.
    #[must_use]
    pub fn reporting(self, on_request: OnRequest) -> LiveCluster {
        LiveCluster {
            on_request: Some(on_request),
            ..self
        }
    }

    pub(super) fn report(&self, request: &SentRequest<'_>) {
        if let Some(on_request) = self.on_request {
            on_request(request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_the_server_is_shown_without_a_password() {
        for (url, expected) in [
            (
                "https://me:s3cret@api.example:6443/k8s",
                "https://api.example:6443",
            ),
            ("https://[fd00::1]:6443", "https://[fd00::1]:6443"),
            ("http://localhost", "http://localhost"),
        ] {
            assert_eq!(shown(&url.parse().unwrap()), expected);
        }
    }
}

//! Finds the API server and the credentials, and sets up connections. It must never send a request.

use std::path::PathBuf;
use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

/// Selects the cluster, as with `kubectl`.
#[derive(Clone, Debug)]
pub struct Connection {
    /// A kubeconfig file. Default: `$KUBECONFIG`, `~/.kube/config`, or the Pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// A context of that file. Default: its current context.
    pub context: Option<String>,
    /// How long to retry when a server that has answered before fails or is busy.
    pub patience: Duration,
}

/// A client for that cluster.
pub(super) async fn client(connection: &Connection) -> Result<Client, String> {
    let fault = |error: &dyn std::error::Error| error.to_string();
    let options = KubeConfigOptions {
        context: connection.context.clone(),
        ..KubeConfigOptions::default()
    };
    let mut config = match &connection.kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path).map_err(|error| fault(&error))?;
            Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .map_err(|error| fault(&error))?
        }
        None if connection.context.is_some() => Config::from_kubeconfig(&options)
            .await
            .map_err(|error| fault(&error))?,
        None => Config::infer().await.map_err(|error| fault(&error))?,
    };
    // The client's own retries take long and report nothing.
    config.default_retry = false;
    prompt_client(config).map_err(|error| fault(&error))
}

/// A client that sends small packets at once. The default client makes each new connection wait
/// 40 ms for a delayed acknowledgement (RFC 896 with RFC 1122 4.2.3.2). A list of a small cluster
/// takes less.
fn prompt_client(config: Config) -> Result<Client, kube::Error> {
    if config.proxy_url.is_some() {
        // The default client supports proxies, or reports that it does not.
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

//! Errors of the Kubernetes client in words for people: the cause, without names of types. It must
//! never repeat a credential, or the output of a credential plugin.

use std::error::Error;

use kube::client::AuthError;
use kube::config::{InferConfigError, KubeconfigError};

/// Parts of messages of the system, the resolver and the TLS library, with our words for them. The
/// first that matches counts.
const CAUSES: [(&str, &str); 25] = [
    ("connection refused", "connection refused"),
    ("connection reset", "it closed the connection"),
    ("broken pipe", "it closed the connection"),
    (
        "unknownissuer",
        "its certificate is of an unknown authority",
    ),
    ("certificate expired", "its certificate has expired"),
    (
        "invalid peer certificate: expired",
        "its certificate has expired",
    ),
    (
        "certificate not valid yet",
        "its certificate is not valid yet",
    ),
    ("notvalidyet", "its certificate is not valid yet"),
    (
        "certificate not valid for name",
        "its certificate is for another name",
    ),
    ("notvalidforname", "its certificate is for another name"),
    ("certificaterequired", "it requires a client certificate"),
    (
        "unknownca",
        "it does not know the authority of the client certificate",
    ),
    ("invalid peer certificate", "its certificate is not valid"),
    ("invalidcontenttype", "it does not speak TLS"),
    ("wrong version number", "it does not speak TLS"),
    ("corrupt message", "it does not speak TLS"),
    ("failed to lookup address", "its name cannot be resolved"),
    ("timed out", "no answer in time"),
    ("deadline has elapsed", "no answer in time"),
    ("no route to host", "no route to it"),
    ("network is unreachable", "no route to it"),
    ("incomplete message", "it closed the connection"),
    ("connection closed", "it closed the connection"),
    ("unexpected eof", "it closed the connection"),
    ("unexpected end of file", "it closed the connection"),
];

const NO_PROXIES: &str = "proxies are not supported; remove `proxy-url` from the kubeconfig, or unset \
     HTTPS_PROXY, or set NO_PROXY for the API server";

/// A sentence for a request without a usable answer.
pub(super) fn of_request(server: &str, error: &(dyn Error + 'static)) -> String {
    if let Some(kube::Error::Api(status)) = error.downcast_ref() {
        return format!(
            "the API server {server} refuses the request: {}",
            status.message
        );
    }
    let chain = chain(error);
    if let Some(auth) = chain.iter().find_map(|error| of_auth(*error)) {
        return format!("no credentials for the API server {server}: {auth}");
    }
    no_answer(server, &cause(&chain))
}

pub(super) fn no_answer(server: &str, cause: &str) -> String {
    format!("the API server {server} does not answer: {cause}")
}

fn cause(chain: &[&(dyn Error + 'static)]) -> String {
    let texts: Vec<String> = chain.iter().map(ToString::to_string).collect();
    let all = texts.join("\n").to_lowercase();
    match CAUSES.iter().find(|(part, _)| all.contains(part)) {
        Some((_, words)) => (*words).to_owned(),
        None => without_logins(texts.last().map_or("", String::as_str)),
    }
}

/// An error and its causes. An I/O error hides the error that it wraps, so that one is added.
fn chain<'e>(error: &'e (dyn Error + 'static)) -> Vec<&'e (dyn Error + 'static)> {
    let mut chain = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        chain.push(error);
        let wrapped = error.downcast_ref::<std::io::Error>();
        let wrapped = wrapped.and_then(std::io::Error::get_ref);
        next = match wrapped {
            Some(inner) => Some(inner as &'e (dyn Error + 'static)),
            None => error.source(),
        };
    }
    chain
}

/// Failures of credentials. A plugin prints the token, so its output is never shown.
fn of_auth(error: &(dyn Error + 'static)) -> Option<String> {
    let auth = match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Auth(auth)) => auth,
        _ => error.downcast_ref::<AuthError>()?,
    };
    Some(match auth {
        AuthError::AuthExecStart(why) => format!("the credential plugin cannot be run: {why}"),
        // `cmd` has the arguments and the environment, which may have secrets too.
        AuthError::AuthExecRun { cmd: _, out } => {
            format!("the credential plugin failed ({})", out.status)
        }
        AuthError::AuthExecParse(_) | AuthError::ParseTokenKey(_) => {
            "the output of the credential plugin is not valid".to_owned()
        }
        AuthError::ReadTokenFile(why, path) => {
            format!("the token file `{}` cannot be read: {why}", path.display())
        }
        AuthError::ExecPluginFailed => "the credential plugin printed no status".to_owned(),
        other => without_failed(&other.to_string()),
    })
}

/// Why a connection cannot be prepared, as a sentence.
pub(super) fn of_setup(error: &(dyn Error + 'static)) -> String {
    for error in chain(error) {
        if let Some(error) = error.downcast_ref::<KubeconfigError>() {
            return of_kubeconfig(error);
        }
        if let Some(auth) = of_auth(error) {
            return auth;
        }
        // The text of the error has the proxy's URL, which may have a password.
        if let Some(
            kube::Error::ProxyProtocolUnsupported { .. }
            | kube::Error::ProxyProtocolDisabled { .. },
        ) = error.downcast_ref()
        {
            return NO_PROXIES.to_owned();
        }
    }
    without_failed(&error.to_string())
}

/// Why no cluster was found without flags: no kubeconfig, and no service account of a Pod.
pub(super) fn of_inference(error: &InferConfigError) -> String {
    let kubeconfig = error.source().map(of_setup).unwrap_or_default();
    format!("{kubeconfig}, and this is not a Pod with a service account")
}

fn of_kubeconfig(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(why, path) => {
            format!("the kubeconfig `{}` cannot be read: {why}", path.display())
        }
        KubeconfigError::FindPath => "there is no kubeconfig".to_owned(),
        KubeconfigError::CurrentContextNotSet => {
            "the kubeconfig has no current context; use --context".to_owned()
        }
        KubeconfigError::LoadContext(name) => {
            format!("the kubeconfig has no context `{name}`")
        }
        KubeconfigError::LoadClusterOfContext(name) => {
            format!("the kubeconfig has no cluster `{name}`")
        }
        // The parser's message may quote a token.
        KubeconfigError::Parse(_) => "the kubeconfig is not a valid one".to_owned(),
        other => without_failed(&other.to_string()),
    }
}

/// `failed to load client key: …` without its first words, and without logins in URLs.
fn without_failed(text: &str) -> String {
    let text = &without_logins(text);
    let text = text.strip_prefix("auth error: ").unwrap_or(text);
    match text.strip_prefix("failed to ") {
        Some(rest) => format!("cannot {rest}"),
        None => text.to_owned(),
    }
}

/// Removes logins from URLs: `https://user:password@host` becomes `https://host`.
fn without_logins(text: &str) -> String {
    let mut parts = text.split("://");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part
            .find(|sign: char| sign.is_whitespace() || "/?#\"'`".contains(sign))
            .unwrap_or(part.len());
        let (authority, rest) = part.split_at(end);
        let host = authority.rsplit('@').next().unwrap_or_default();
        shown.extend(["://", host, rest]);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_login_of_a_url_is_shown() {
        let proxy_url = Box::new("http://user:s3cret@127.0.0.1:2".parse().unwrap());
        let unsupported = kube::Error::ProxyProtocolUnsupported { proxy_url };
        assert_eq!(of_setup(&unsupported), NO_PROXIES);
        for (text, shown) in [
            (
                "GET https://u:p@h:1/x?a@b failed",
                "GET https://h:1/x?a@b failed",
            ),
            (
                "`http://u@h` and socks5://a:b@c",
                "`http://h` and socks5://c",
            ),
            ("no URL, a@b", "no URL, a@b"),
        ] {
            assert_eq!(without_logins(text), shown);
        }
    }

    fn service(inner: impl Error + Send + Sync + 'static) -> kube::Error {
        kube::Error::Service(Box::new(inner))
    }

    fn io(kind: std::io::ErrorKind, text: &str) -> std::io::Error {
        std::io::Error::new(kind, text.to_owned())
    }

    #[test]
    fn a_cause_is_named_without_the_clients_words() {
        use std::io::ErrorKind::{Other, TimedOut};
        for (error, words) in [
            (
                service(std::io::Error::from_raw_os_error(111)),
                "connection refused",
            ),
            (
                service(io(Other, "invalid peer certificate: UnknownIssuer")),
                "its certificate is of an unknown authority",
            ),
            (
                service(io(
                    Other,
                    "invalid peer certificate: certificate expired: verification time 1",
                )),
                "its certificate has expired",
            ),
            (
                service(io(
                    Other,
                    "failed to lookup address information: Name or service not known",
                )),
                "its name cannot be resolved",
            ),
            (service(io(TimedOut, "timed out")), "no answer in time"),
            (service(io(Other, "something new")), "something new"),
        ] {
            let said = of_request("https://api.example:6443", &error);
            let expected =
                format!("the API server https://api.example:6443 does not answer: {words}");
            assert_eq!(said, expected, "{error}");
        }
    }

    #[test]
    fn the_output_of_a_credential_plugin_is_never_shown() {
        let ran = std::process::Command::new("sh")
            .args(["-c", "echo s3cret; echo s3cret >&2; exit 3"])
            .output()
            .unwrap();
        let failed = AuthError::AuthExecRun {
            cmd: "login --secret=s3cret".to_owned(),
            out: Box::new(ran),
        };
        let said = of_request("https://a", &kube::Error::Auth(failed));
        assert_eq!(
            said,
            "no credentials for the API server https://a: the credential plugin failed (exit status: 3)"
        );
        let json = serde_json::from_str::<i32>("\"s3cret\"").unwrap_err();
        assert!(json.to_string().contains("s3cret"));
        let said = of_request("https://a", &service(AuthError::ParseTokenKey(json)));
        assert_eq!(
            said,
            "no credentials for the API server https://a: the output of the credential plugin is not valid"
        );
    }
}

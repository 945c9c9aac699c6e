//! A Keystone and a Neutron on loopback that repeat passwords and tokens wherever they can, and
//! URLs that others can read. The plugin, the plan and the node's daemon must not show the secrets.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::{finish, start, variables};
use crate::hostile_server::skip_headers_and_body;
use crate::support::{Folder, KUBERNETES, Ran, TextAssertions, cluster, node, pool};

const PASSWORD: &str = "correct \"horse\" battery/staple";
const TOKEN: &str = "gAAAAABnQrandomTokenOfKeystoneThatNobodyElseMaySee0123456789_-abcdefghijkl";
const NETWORK: &str = "782ec9ac-44f9-4318-8c67-a2fed2ccca4f";
const SUBNET: &str = "882ec9ac-44f9-4318-8c67-a2fed2ccca4f";

/// Method and path, and whether Keystone is meant; gives status and body.
type Answer = dyn Fn(&str) -> (u16, String) + Send + Sync;

/// Serves both on one port until the test's process ends; gives the address. Without an address of
/// its own Neutron is there, too.
fn serve(
    neutron_url: Option<&'static str>,
    answer: impl Fn(&str) -> (u16, String) + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer: Arc<Answer> = Arc::new(answer);
    let here = neutron_url.unwrap_or(&url).to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (answer, here) = (answer.clone(), here.clone());
            std::thread::spawn(move || connection(stream, &here, &*answer));
        }
    });
    url
}

fn connection(stream: TcpStream, neutron_url: &str, answer: &Answer) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    loop {
        let mut head = String::new();
        reader.read_line(&mut head).ok().filter(|read| *read > 0)?;
        skip_headers_and_body(&mut reader)?;
        let (mut status, mut body) = answer(&head);
        if status == 0 {
            let endpoint = json!({"interface": "public", "region": "r", "url": neutron_url});
            let catalog = json!([{"type": "network", "endpoints": [endpoint]}]);
            let token =
                json!({"token": {"expires_at": "2099-01-01T00:00:00.000000Z", "catalog": catalog}});
            (status, body) = if head.contains("/auth/tokens") {
                (201, token.to_string())
            } else {
                (404, String::new())
            };
        }
        let size = body.len();
        write!(writer, "HTTP/1.1 {status} X\r\nX-Subject-Token: {TOKEN}\r\nContent-Length: {size}\r\n\r\n{body}")
            .ok()?;
    }
}

/// Gives the default answer.
fn usual() -> (u16, String) {
    (0, String::new())
}

fn plugin(url: &str) -> Ran {
    let state = TempDir::new().unwrap();
    let openstack = json!({"username": "u", "password": PASSWORD, "project": "p", "domain": "default", "authUrl": url});
    let ipam = json!({
        "type": "ipam-neutron", "openstackConf": openstack, "neutronConf": {"networks": [NETWORK]}, "node": "n1",
        "stateDirectory": state.path().join("state"), "deadlineSeconds": 10,
    });
    let configuration = json!({"cniVersion": "1.1.0", "name": "pods", "ipam": ipam});
    finish(start(&configuration.to_string(), &variables("ADD", "a")))
}

fn plan(url: &str, verify: Value) -> Ran {
    let auth = json!({"auth_url": url, "username": "u", "password": PASSWORD, "project_name": "p"});
    let clouds = json!({"clouds": {"lab": {"auth": auth, "verify": verify}}}).to_string();
    let pool = pool(
        "vm",
        &format!("{{neutron: {{network: {NETWORK}, subnet: {SUBNET}}}}}"),
    );
    let cluster = cluster("1.19.3", KUBERNETES, &[node("n1", "a", "")]);
    let folder = Folder::new(&[
        ("cluster.json", &cluster),
        ("pools/a.yaml", &pool),
        ("clouds.yaml", &clouds),
    ]);
    folder.run(&["plan", "--cluster", "cluster.json", "--fail-on", "never"])
}

/// Without line breaks.
fn flat(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_whitespace() && *c != '│')
        .collect()
}

#[track_caller]
fn shows_no_secret(ran: &Ran) {
    let all = flat(&ran.all());
    for part in ["horse", "staple", "randomToken", "0123456789_-"] {
        assert!(!all.contains(part), "{part} in {all}");
    }
}

/// Bodies that repeat a secret.
fn echoes() -> Vec<(u16, String)> {
    let fault = |message: &str| {
        json!({"NeutronError": {"type": "X", "message": message, "detail": ""}}).to_string()
    };
    let secrets = format!("your token {TOKEN} and password {PASSWORD}");
    let late = format!("{}{TOKEN}", "x".repeat(285));
    let cut = format!("the token {}… is bad", &TOKEN[..24]);
    let encoded = "the password correct%20%22horse%22%20battery%2Fstaple is bad";
    let mut echoes = Vec::new();
    for status in [400, 403, 404, 409, 429, 500, 503] {
        echoes.push((status, fault(&secrets)));
    }
    echoes.extend([
        (403, fault(&late)),
        (403, fault(&cut)),
        (403, fault(encoded)),
        (500, fault(&json!(PASSWORD).to_string())),
    ]);
    // An answer of another shape is repeated by what reads it.
    for key in ["ports", "port", "subnet", "network"] {
        echoes.push((200, json!({key: TOKEN}).to_string()));
        echoes.push((
            200,
            json!({key: {"id": PASSWORD, "network_id": TOKEN, "cidr": TOKEN}}).to_string(),
        ));
    }
    echoes.push((200, json!({"ports": [{"id": TOKEN}]}).to_string()));
    echoes
}

#[test]
fn no_secret_that_is_repeated_is_shown() {
    std::thread::scope(|scope| {
        for (status, body) in echoes() {
            scope.spawn(move || {
                let neutron = body.clone();
                let url = serve(None, move |head| {
                    if head.contains("/v2.0/") {
                        (status, neutron.clone())
                    } else {
                        usual()
                    }
                });
                for ran in [plugin(&url), plan(&url, json!(true))] {
                    shows_no_secret(&ran);
                    let keystone = body.replace("NeutronError", "error");
                    assert!(!ran.all().contains("panicked"), "{keystone}: {}", ran.all());
                }
                let keystone = serve(None, move |_| (status, body.clone()));
                [plugin(&keystone), plan(&keystone, json!(true))]
                    .iter()
                    .for_each(shows_no_secret);
            });
        }
    });
}

#[test]
fn a_server_that_repeats_a_secret_is_named_as_such() {
    let body =
        json!({"NeutronError": {"type": "X", "message": format!("bad {TOKEN}"), "detail": ""}})
            .to_string();
    let url = serve(None, move |head| {
        if head.contains("/v2.0/") {
            (403, body.clone())
        } else {
            usual()
        }
    });
    let ran = plugin(&url).expect(1);
    ran.stdout.assert_has("its words are not shown");
    let body =
        json!({"NeutronError": {"type": "X", "message": "not in this project", "detail": ""}})
            .to_string();
    let url = serve(None, move |head| {
        if head.contains("/v2.0/") {
            (403, body.clone())
        } else {
            usual()
        }
    });
    assert!(
        plugin(&url)
            .expect(1)
            .stdout
            .contains("not in this project")
    );
}

#[test]
fn an_address_with_the_token_in_it_is_not_used() {
    let url = serve(
        Some("http://127.0.0.1:1/gAAAAABnQrandomTokenOfKeystoneThatNobodyElseMaySee0123456789_-x"),
        |_| usual(),
    );
    for ran in [plugin(&url), plan(&url, json!(true))] {
        shows_no_secret(&ran);
        assert!(flat(&ran.all()).contains("inthecatalogue"), "{}", ran.all());
    }
}

#[test]
fn what_others_can_read_is_a_warning() {
    let ways = [
        (
            "without TLS: others on the way can read the password",
            "serve Keystone over https",
        ),
        (
            "without TLS: others on the way can read the token",
            "openstack endpoint set",
        ),
        (
            "any server on the way can answer",
            "certificates of the cloud's authority",
        ),
    ];
    let warned = |ran: &Ran| {
        let all = flat(&ran.all());
        shows_no_secret(ran);
        ways.map(|(what, help)| {
            let (what, help) = (flat(what), flat(help));
            // Once, with the fix.
            assert_eq!(
                all.matches(&what).count(),
                all.matches(&help).count(),
                "{all}"
            );
            all.matches(&what).count()
        })
    };
    let elsewhere = || serve(Some("http://neutron.invalid:9696"), |_| usual());
    assert_eq!(
        warned(&plan("http://keystone.invalid:5000/v3", json!(true))),
        [1, 0, 0]
    );
    assert_eq!(warned(&plan(&elsewhere(), json!(true))), [0, 1, 0]);
    assert_eq!(warned(&plan(&elsewhere(), json!(false))), [0, 1, 1]);
    assert_eq!(
        warned(&plan(&serve(None, |_| usual()), json!(true))),
        [0, 0, 0],
        "loopback"
    );
    let ran = plugin(&elsewhere()).expect(1);
    assert_eq!(warned(&ran), [0, 1, 0]);
    assert!(
        !ran.stdout.contains("TLS"),
        "standard output is the runtime's: {}",
        ran.stdout
    );
}

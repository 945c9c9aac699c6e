//! `cargo xtask prove retry`: an HTTP server on loopback that answers at random, and the real
//! client in front of it. Only the pauses between attempts pass in no time: the client's clock is
//! moved by what it would have slept. Requests, answers and lost connections are real.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use fastrand::Rng;
use serde_json::json;

use super::hostile_server::skip_headers_and_body;
use super::support::{Folder, api_server};
use ipam_cluster::live::{Clock, LiveCluster};
use ipam_cluster::{Cluster, LeaseName, Operation, Target, Write, WriteError};

/// The client's limits, repeated here on purpose.
const FLOOR: Duration = Duration::from_millis(100);
const CAP: Duration = Duration::from_secs(60);
/// Consecutive trials that share a client, and so its patience.
const OF_CLIENT: u64 = 25;
/// Trials at the same time.
const TASKS: u64 = 16;
/// The server succeeds after this many answers, for clients with endless patience.
const ENDLESS: usize = 400;

/// The answers of a trial's server: a random one each time, or always the first.
#[derive(Clone, Debug)]
enum Answer {
    Status(u16, Option<String>),
    /// The connection is reset before the answer.
    Reset,
    /// The connection ends in the middle of the answer.
    Torn,
}

/// The behaviour of one trial's server.
struct Script {
    rng: Rng,
    /// Always the same.
    fixed: Option<Answer>,
    /// Successful answers, in percent.
    mercy: u32,
    requests: usize,
    longest: usize,
}

impl Script {
    fn next(&mut self) -> Answer {
        self.requests += 1;
        if self.requests > self.longest || self.rng.u32(0..100) < self.mercy {
            return Answer::Status(200, None);
        }
        self.fixed.clone().unwrap_or_else(|| answer(&mut self.rng))
    }
}

fn answer(rng: &mut Rng) -> Answer {
    match rng.u32(0..100) {
        0..70 => Answer::Status(rng.choice([429, 503, 504, 500]).unwrap(), asked(rng)),
        70..71 => Answer::Status(409, asked(rng)),
        71..90 => Answer::Reset,
        _ => Answer::Torn,
    }
}

/// A `Retry-After` of any kind.
fn asked(rng: &mut Rng) -> Option<String> {
    let moment = |offset: i64| {
        let by = Duration::from_secs(offset.unsigned_abs());
        let now = SystemTime::now();
        httpdate::fmt_http_date(if offset < 0 { now - by } else { now + by })
    };
    let huge = [
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999999999999999",
        "9223372036854775807",
    ];
    let garbage = [
        "",
        "soon",
        "-1",
        "1.5",
        "0x10",
        "1, 2",
        "Sun, 99 Nov 1994 08:49:37 GMT",
        "NaN",
        "1e9",
    ];
    match rng.u32(0..8) {
        0 => None,
        1 => Some("0".to_owned()),
        2 => Some("1".to_owned()),
        3 => Some(rng.u32(0..200).to_string()),
        4 => Some(rng.choice(huge).unwrap().to_owned()),
        5 => Some(moment(rng.i64(-100_000..100_000))),
        6 => Some(moment(rng.i64(0..10))),
        _ => Some(rng.choice(garbage).unwrap().to_owned()),
    }
}

fn patience(rng: &mut Rng) -> Duration {
    match rng.u32(0..20) {
        0 => Duration::ZERO,
        1 => Duration::from_secs(u64::MAX),
        2 => Duration::from_secs(300),
        // As many short ones as long ones, up to ten minutes.
        _ => Duration::from_secs_f64(10_f64.powf(rng.f64() * 5.78 - 3.0)),
    }
}

/// The most requests that a patience allows: pauses grow to a second at least, and the last one may
/// be shorter.
fn bound(patience: Duration) -> usize {
    let mut pauses = 1;
    let (mut spent, mut least) = (Duration::ZERO, FLOOR);
    while least < Duration::from_secs(1) && spent < patience {
        spent += least;
        least *= 2;
        pauses += 1;
    }
    let seconds = patience.saturating_sub(spent).as_secs();
    usize::try_from(seconds)
        .unwrap_or(usize::MAX)
        .saturating_add(pauses + 1)
}

/// A clock that only sleeps advance.
#[derive(Debug)]
struct Slept {
    seed: u64,
    pauses: Mutex<Vec<Duration>>,
}

impl Slept {
    fn new(seed: u64) -> Arc<Slept> {
        Arc::new(Slept {
            seed,
            pauses: Mutex::default(),
        })
    }

    fn pauses(&self) -> Vec<Duration> {
        self.pauses.lock().unwrap().clone()
    }
}

impl Clock for Slept {
    fn elapsed(&self) -> Duration {
        self.pauses()
            .iter()
            .fold(Duration::ZERO, |sum, pause| sum.saturating_add(*pause))
    }

    fn sleep(&self, pause: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.pauses.lock().unwrap().push(pause);
        Box::pin(tokio::task::yield_now())
    }

    fn rng(&self) -> Rng {
        Rng::with_seed(self.seed)
    }
}

type Scripts = Arc<Mutex<BTreeMap<u64, Script>>>;

/// Node `t7` is trial 7's; all else is answered well.
fn serve() -> (Folder, Scripts) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let scripts = Scripts::default();
    let known = scripts.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let scripts = known.clone();
            std::thread::spawn(move || connection(&stream, &scripts));
        }
    });
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: t\nclusters: [{{name: t, cluster: {{server: \"http://127.0.0.1:{port}\"}}}}]\ncontexts: [{{name: t, context: {{cluster: t, user: t}}}}]\nusers: [{{name: t, user: {{}}}}]\n"
    );
    (Folder::new(&[("kubeconfig", &kubeconfig)]), scripts)
}

fn connection(stream: &TcpStream, scripts: &Scripts) -> Option<()> {
    let _ = stream.set_nodelay(true);
    let mut reader = BufReader::with_capacity(1, stream.try_clone().ok()?);
    let mut writer = stream;
    loop {
        let mut head = String::new();
        reader.read_line(&mut head).ok().filter(|read| *read > 0)?;
        let trial = head
            .split_once("/nodes/t")
            .and_then(|(_, rest)| rest.split('?').next()?.parse::<u64>().ok());
        let next = trial.and_then(|trial| Some(scripts.lock().unwrap().get_mut(&trial)?.next()));
        if let Some(Answer::Reset) = next {
            // What was not read makes the kernel reset the connection.
            return None;
        }
        skip_headers_and_body(&mut reader)?;
        let body = r#"{"message":"random","metadata":{"uid":"u","resourceVersion":"2"}}"#;
        let (status, asked, sent) = match next {
            Some(Answer::Status(status, asked)) => (status, asked, body.len()),
            Some(Answer::Torn) => (200, None, body.len() / 2),
            _ => (404, None, body.len()),
        };
        let asked = asked
            .map(|asked| format!("Retry-After: {asked}\r\n"))
            .unwrap_or_default();
        let size = body.len();
        let answer = format!(
            "HTTP/1.1 {status} X\r\n{asked}Content-Length: {size}\r\n\r\n{}",
            &body[..sent]
        );
        writer.write_all(answer.as_bytes()).ok()?;
        if sent < size {
            return None;
        }
    }
}

struct Ended {
    outcome: Result<(), WriteError>,
    pauses: Vec<Duration>,
    requests: usize,
}

/// The real client. A server that has never answered is not waited for, so it answers once.
async fn connect(folder: &Folder, patience: Duration) -> LiveCluster {
    let connection = api_server(&folder.join("kubeconfig"), patience);
    let cluster = LiveCluster::connect(connection).await.unwrap();
    cluster.lock(LeaseName::Apply).await.unwrap();
    cluster
}

/// One write.
async fn attempt(cluster: LiveCluster, scripts: &Scripts, trial: u64, script: Script) -> Ended {
    scripts.lock().unwrap().insert(trial, script);
    let pace = Slept::new(trial);
    let target = Target::Node(format!("t{trial}").parse().unwrap());
    let write = Write {
        target,
        operation: Operation::Patch(json!({"metadata": {"uid": "u", "resourceVersion": "1"}})),
    };
    let outcome = cluster
        .with_clock(pace.clone())
        .write(&write)
        .await
        .map(|_| ());
    let requests = scripts.lock().unwrap().remove(&trial).unwrap().requests;
    Ended {
        outcome,
        pauses: pace.pauses(),
        requests,
    }
}

/// The invariants of every trial.
fn judge(what: &str, patience: Duration, ended: &Ended) {
    let Ended {
        outcome,
        pauses,
        requests,
    } = ended;
    let sum = pauses
        .iter()
        .fold(Duration::ZERO, |sum, pause| sum.saturating_add(*pause));
    assert!(sum <= patience, "{what}: waits of {sum:?}");
    for pause in pauses {
        assert!(
            (FLOOR..=CAP).contains(pause),
            "{what}: a pause of {pause:?}"
        );
    }
    assert!(
        *requests <= bound(patience),
        "{what}: {requests} requests, of {} at most",
        bound(patience)
    );
    assert_eq!(
        *requests,
        pauses.len() + 1,
        "{what}: each request but the first follows a pause"
    );
    let is_known = matches!(
        outcome,
        Ok(()) | Err(WriteError::Busy(_) | WriteError::Unknown(_) | WriteError::Superseded(_))
    );
    assert!(is_known, "{what}: {outcome:?}");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

#[derive(Default)]
struct Figures {
    requests: AtomicUsize,
    most: Mutex<(usize, usize)>,
    gave_up: AtomicUsize,
}

async fn trials(folder: Arc<Folder>, scripts: Scripts, figures: Arc<Figures>, seeds: Vec<u64>) {
    let mut client: Option<(u64, LiveCluster)> = None;
    for seed in seeds {
        let group = seed / OF_CLIENT;
        let patience = patience(&mut Rng::with_seed(group));
        let cluster = match client.take() {
            Some((of, cluster)) if of == group => cluster,
            _ => connect(&folder, patience).await,
        };
        client = Some((group, cluster.clone()));
        let mut rng = Rng::with_seed(seed);
        let fixed = rng.bool().then(|| answer(&mut rng));
        let mercy = if rng.bool() { 0 } else { rng.u32(0..20) };
        let what = format!("RETRY_SEED={seed}, patience {patience:?}, {fixed:?}");
        let endless = if patience > Duration::from_secs(3_600) {
            ENDLESS
        } else {
            usize::MAX
        };
        let script = Script {
            rng,
            fixed,
            mercy,
            requests: 0,
            longest: endless,
        };
        let ended = attempt(cluster, &scripts, seed, script).await;
        judge(&what, patience, &ended);
        figures
            .requests
            .fetch_add(ended.requests, Ordering::Relaxed);
        if ended.outcome.is_err() {
            figures.gave_up.fetch_add(1, Ordering::Relaxed);
        }
        let mut most = figures.most.lock().unwrap();
        if ended.requests > most.0 && endless == usize::MAX {
            *most = (ended.requests, bound(patience));
        }
    }
}

/// Another number of trials is chosen with `RETRY_CASES`, a single one with `RETRY_SEED`.
#[test]
fn retry_is_bounded_whatever_the_server_answers() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap())
    };
    let seeds: Vec<u64> = match number("RETRY_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("RETRY_CASES").unwrap_or(1_000)).collect(),
    };
    let (folder, scripts) = serve();
    let (folder, figures, began) = (
        Arc::new(folder),
        Arc::new(Figures::default()),
        Instant::now(),
    );
    let count = seeds.len();
    runtime().block_on(async {
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let own = seeds
                    .iter()
                    .copied()
                    .filter(|seed| seed / OF_CLIENT % TASKS == task)
                    .collect();
                tokio::spawn(trials(
                    folder.clone(),
                    scripts.clone(),
                    figures.clone(),
                    own,
                ))
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let (most, bound) = *figures.most.lock().unwrap();
    println!(
        "retry: trials={count} requests={} gave_up={} requests_max={most} bound={bound} panics=0 seconds={}",
        figures.requests.load(Ordering::Relaxed),
        figures.gave_up.load(Ordering::Relaxed),
        began.elapsed().as_secs(),
    );
}

/// The pauses within five minutes of patience if every answer is this one.
fn always(status: u16, asked: &str) -> Ended {
    let patience = Duration::from_secs(300);
    let (folder, scripts) = serve();
    let fixed = Some(Answer::Status(status, Some(asked.to_owned())));
    let script = Script {
        rng: Rng::with_seed(1),
        fixed,
        mercy: 0,
        requests: 0,
        longest: usize::MAX,
    };
    let ended = runtime()
        .block_on(async { attempt(connect(&folder, patience).await, &scripts, 1, script).await });
    judge(&format!("{status}, Retry-After: {asked}"), patience, &ended);
    ended
}

#[test]
fn retry_after_one_second_for_five_minutes() {
    let Ended {
        outcome,
        pauses,
        requests,
    } = always(429, "1");
    assert!(matches!(outcome, Err(WriteError::Busy(_))), "{outcome:?}");
    assert!((200..=301).contains(&requests), "{requests} requests");
    let (_, whole) = pauses.split_last().unwrap();
    assert!(
        whole
            .iter()
            .all(|pause| (1.0..=1.5).contains(&pause.as_secs_f64())),
        "{pauses:?}"
    );
}

#[test]
fn retry_after_zero_is_not_at_once() {
    for status in [429, 503] {
        let Ended {
            outcome, requests, ..
        } = always(status, "0");
        assert!(outcome.is_err());
        // The pauses grow to five to ten seconds.
        assert!((35..=70).contains(&requests), "{requests} requests");
    }
}

#[test]
fn retry_after_the_end_of_time_is_a_minute() {
    let Ended {
        outcome,
        pauses,
        requests,
    } = always(429, "18446744073709551615");
    assert!(matches!(outcome, Err(WriteError::Busy(_))), "{outcome:?}");
    assert_eq!((pauses, requests), (vec![CAP; 5], 6));
}

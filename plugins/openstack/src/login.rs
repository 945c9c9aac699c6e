//! Caches logins between runs: one file per login that only its owner can read, one login at a time,
//! and no second attempt soon after a refusal.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use crate::http::Session;
use crate::{Access, Cloud, InsecureSetting, Named, NeutronError, Project, Trust};
use private_files::{Locked, kept, state_folder};

/// A token that expires within this time is not used.
const MARGIN: SignedDuration = SignedDuration::from_secs(60);

/// How long a refusal is cached: each attempt costs Keystone a password hash, and some clouds lock a
/// user out after a few.
const REFUSED_FOR: SignedDuration = SignedDuration::from_secs(30);

/// Where sessions are cached between runs.
#[derive(Clone, Debug)]
pub enum SessionCache {
    /// Sessions are not cached: each run logs in.
    Disabled,
    /// Sessions are cached in a folder, with facts that were read recently.
    In {
        /// Folder of the cache.
        folder: PathBuf,
        /// Receives each insecure setting once per login, so not once per Pod.
        on_insecure: fn(&InsecureSetting),
    },
}

/// The cache of logins.
#[derive(Clone, Debug)]
pub(super) struct Logins {
    cache: SessionCache,
}

/// A login as the cache stores it.
#[derive(Serialize, Deserialize)]
struct CachedLogin {
    /// Makes each guess at the secret cost a hash of its own.
    salt: u64,
    /// A hash of the secret. A changed secret needs another login.
    proof: String,
    outcome: Outcome,
}

#[derive(Serialize, Deserialize)]
enum Outcome {
    Session(Session),
    RefusedAt(Timestamp),
}

impl CachedLogin {
    fn new(secret: &str, outcome: Outcome) -> CachedLogin {
        let salt = fastrand::u64(..);
        CachedLogin {
            salt,
            proof: proof(salt, secret),
            outcome,
        }
    }

    fn still_valid(self, secret: &str) -> Option<Result<Session, NeutronError>> {
        if self.proof != proof(self.salt, secret) {
            return None;
        }
        let now = Timestamp::now();
        match self.outcome {
            Outcome::Session(session) => {
                (session.expires.duration_since(now) > MARGIN).then_some(Ok(session))
            }
            Outcome::RefusedAt(at) => {
                // A refusal of the future (the clock was set back) does not count.
                let is_fresh =
                    (SignedDuration::ZERO..REFUSED_FOR).contains(&now.duration_since(at));
                is_fresh.then_some(Err(NeutronError::Refused))
            }
        }
    }
}

impl Logins {
    pub(super) fn new(cache: SessionCache) -> Logins {
        Logins { cache }
    }

    /// The file that caches something else of this cloud; `None` if nothing is cached.
    pub(super) fn cache_path(&self, cloud: &Cloud, name: &str) -> Option<PathBuf> {
        match &self.cache {
            SessionCache::Disabled => None,
            SessionCache::In { folder, .. } => {
                Some(folder.join(format!("{}-{name}", who_and_where(cloud))))
            }
        }
    }

    /// Returns the cached session, or logs in. Of several runs at once, one logs in and the others
    /// use its session. If nothing can be cached (full disk), each run logs in.
    pub(super) fn get_or(
        &self,
        cloud: &Cloud,
        until: Instant,
        login: impl Fn() -> Result<Session, NeutronError>,
    ) -> Result<Session, NeutronError> {
        let SessionCache::In {
            folder,
            on_insecure,
        } = &self.cache
        else {
            return login();
        };
        let (path, secret) = (path(folder, cloud), secret(&cloud.access));
        let still_valid =
            || kept::read::<CachedLogin>(&path).and_then(|kept| kept.still_valid(secret));
        if let Some(outcome) = still_valid() {
            return outcome;
        }
        let lock = locked(folder, &path, until);
        if lock.is_some()
            && let Some(outcome) = still_valid()
        {
            return outcome;
        }
        kept::clean(folder);
        let outcome = login();
        if let Ok(session) = &outcome {
            InsecureSetting::all_of(cloud, Some(&session.network_url))
                .iter()
                .for_each(on_insecure);
        }
        let kept = match &outcome {
            Ok(session) => Some(Outcome::Session(session.clone())),
            Err(NeutronError::Refused) => Some(Outcome::RefusedAt(Timestamp::now())),
            Err(_) => None,
        };
        if let Some(kept) = kept {
            // If the outcome cannot be cached, the next run logs in again.
            let _ = kept::keep(&path, &CachedLogin::new(secret, kept));
        }
        outcome
    }

    /// Removes a session that Neutron no longer accepts, unless another one is cached by now.
    pub(super) fn forget(&self, cloud: &Cloud, until: Instant, session: &Session) {
        let SessionCache::In { folder, .. } = &self.cache else {
            return;
        };
        let path = path(folder, cloud);
        let _lock = locked(folder, &path, until);
        if let Some(CachedLogin {
            outcome: Outcome::Session(kept),
            ..
        }) = kept::read(&path)
            && kept == *session
        {
            let _ = fs::remove_file(&path);
        }
    }
}

fn locked(folder: &Path, path: &Path, until: Instant) -> Option<Locked> {
    state_folder(folder).ok()?;
    Locked::alone(&path.with_extension("lock"), until).ok()
}

fn path(folder: &Path, cloud: &Cloud) -> PathBuf {
    folder.join(format!("{}-login.json", who_and_where(cloud)))
}

/// A digest of everything that makes logins differ: user, place and certificates.
fn who_and_where(cloud: &Cloud) -> String {
    let Cloud {
        auth_url,
        access,
        region,
        interface,
        certificates,
        trust,
    } = cloud;
    let mut parts = match access {
        Access::Password {
            username,
            user_domain,
            password: _,
            project,
        } => {
            let mut who = vec![username.as_str()];
            who.extend(named(user_domain));
            match project {
                Project::Id(id) => who.extend(["project", id]),
                Project::Name(name, domain) => {
                    who.extend([name.as_str()].into_iter().chain(named(domain)))
                }
            }
            who
        }
        Access::ApplicationCredential { id, secret: _ } => vec!["credential", id.as_str()],
    };
    parts.extend([
        auth_url.as_str(),
        region.as_deref().unwrap_or_default(),
        interface.as_str(),
    ]);
    parts.push(certificates.as_deref().unwrap_or_default());
    parts.push(match trust {
        Trust::Verified => "verified",
        Trust::Anything => "anything",
    });
    let mut digest = digest(parts);
    digest.truncate(24);
    digest
}

fn named(named: &Named) -> [&str; 2] {
    match named {
        Named::Name(name) => ["name", name],
        Named::Id(id) => ["id", id],
    }
}

fn secret(access: &Access) -> &str {
    match access {
        Access::Password { password, .. } => password,
        Access::ApplicationCredential { secret, .. } => secret,
    }
}

fn proof(salt: u64, secret: &str) -> String {
    digest([format!("{salt:016x}").as_str(), secret])
}

fn digest<'t>(parts: impl IntoIterator<Item = &'t str>) -> String {
    let mut hash = Context::new(&SHA256);
    for part in parts {
        hash.update(part.as_bytes());
        hash.update(&[0]);
    }
    hash.finish()
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

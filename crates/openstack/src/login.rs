//! Logins between runs: a file for each that only its owner can read, one login at a time, and no
//! second one soon after a refusal.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use crate::http::Session;
use crate::{Access, Cloud, Named, NeutronError, Project, Trust, Weakness};
use private_files::{Locked, kept, state_folder};

/// A token that ends so soon is not used any more.
const MARGIN: SignedDuration = SignedDuration::from_secs(60);

/// So long a refusal is believed: each try costs Keystone the work of a password, and some clouds
/// lock a user out after a few.
const REFUSED_FOR: SignedDuration = SignedDuration::from_secs(30);

/// What is kept between runs.
#[derive(Clone, Debug)]
pub enum Keeping {
    /// Nothing: each run logs in and asks for itself.
    Nothing,
    /// Logins and what was learnt lately, in this folder.
    In(PathBuf),
}

/// Where logins are kept.
#[derive(Clone, Debug)]
pub(super) struct Logins {
    keeping: Keeping,
}

/// What is kept of a login.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// Makes the next field tell nothing of a guessed secret that is not worth as much work again.
    salt: u64,
    /// Of the secret that it was got with: a changed one is another login.
    proof: String,
    outcome: Outcome,
}

#[derive(Serialize, Deserialize)]
enum Outcome {
    Session(Session),
    RefusedAt(Timestamp),
}

impl Kept {
    fn new(secret: &str, outcome: Outcome) -> Kept {
        let salt = fastrand::u64(..);
        Kept {
            salt,
            proof: proof(salt, secret),
            outcome,
        }
    }

    fn in_force(self, secret: &str) -> Option<Result<Session, NeutronError>> {
        if self.proof != proof(self.salt, secret) {
            return None;
        }
        let now = Timestamp::now();
        match self.outcome {
            Outcome::Session(session) => {
                (session.expires.duration_since(now) > MARGIN).then_some(Ok(session))
            }
            Outcome::RefusedAt(at) => {
                // A clock that was set back does not make it last.
                let is_fresh =
                    (SignedDuration::ZERO..REFUSED_FOR).contains(&now.duration_since(at));
                is_fresh.then_some(Err(NeutronError::Refused))
            }
        }
    }
}

impl Logins {
    pub(super) fn new(keeping: Keeping) -> Logins {
        Logins { keeping }
    }

    /// Where something else of this cloud is kept, if anything is.
    pub(super) fn kept(&self, cloud: &Cloud, name: &str) -> Option<PathBuf> {
        match &self.keeping {
            Keeping::Nothing => None,
            Keeping::In(folder) => Some(folder.join(format!("{}-{name}", who_and_where(cloud)))),
        }
    }

    /// The session that is kept, or else a new one. Of several at once one logs in, and the others
    /// use what it got. Where nothing can be kept, as on a full disk, each logs in by itself.
    pub(super) fn get_or(
        &self,
        cloud: &Cloud,
        until: Instant,
        login: impl Fn() -> Result<Session, NeutronError>,
    ) -> Result<Session, NeutronError> {
        let Keeping::In(folder) = &self.keeping else {
            return login();
        };
        let (path, secret) = (path(folder, cloud), secret(&cloud.access));
        let in_force = || kept::read::<Kept>(&path).and_then(|kept| kept.in_force(secret));
        if let Some(outcome) = in_force() {
            return outcome;
        }
        let lock = locked(folder, &path, until);
        if lock.is_some()
            && let Some(outcome) = in_force()
        {
            return outcome;
        }
        kept::clean(folder);
        let outcome = login();
        if let Ok(session) = &outcome {
            warn(cloud, session);
        }
        let kept = match &outcome {
            Ok(session) => Some(Outcome::Session(session.clone())),
            Err(NeutronError::Refused) => Some(Outcome::RefusedAt(Timestamp::now())),
            Err(_) => None,
        };
        if let Some(kept) = kept {
            // Without it the next run logs in again.
            let _ = kept::keep(&path, &Kept::new(secret, kept));
        }
        outcome
    }

    /// Drops a session that is not accepted any more, unless another one is kept by now.
    pub(super) fn forget(&self, cloud: &Cloud, until: Instant, session: &Session) {
        let Keeping::In(folder) = &self.keeping else {
            return;
        };
        let path = path(folder, cloud);
        let _lock = locked(folder, &path, until);
        if let Some(Kept {
            outcome: Outcome::Session(kept),
            ..
        }) = kept::read(&path)
            && kept == *session
        {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Once for each login and not for each Pod. Standard output is the runtime's.
fn warn(cloud: &Cloud, session: &Session) {
    for weakness in Weakness::all_of(cloud, Some(&session.network_url)) {
        eprintln!("warning: {weakness}\nhelp: {}", weakness.way_out());
    }
}

fn locked(folder: &Path, path: &Path, until: Instant) -> Option<Locked> {
    state_folder(folder).ok()?;
    Locked::alone(&path.with_extension("lock"), until).ok()
}

fn path(folder: &Path, cloud: &Cloud) -> PathBuf {
    folder.join(format!("{}-login.json", who_and_where(cloud)))
}

/// Tells logins apart: whose, where, and by whose certificates.
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

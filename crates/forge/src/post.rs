//! Posts a comment, or brings the one that is there up to date. A comment of another account is never
//! changed, even if it has the marker. Must never know what the comment says.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::client::patiently;
use crate::routes::{PAGE, Request};
use crate::{Client, ForgeError, Marker, Place, PullRequest, Repository};

/// Limit of the pages of comments that are read.
const PAGES: usize = 100;

/// An edit is at least this much younger than its comment: GitHub and Gitea tell whole seconds.
const CLOCK: SignedDuration = SignedDuration::from_secs(1);

/// A comment of a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Number of the comment.
    pub id: u64,
    /// Name of the author's account.
    pub author: String,
    /// Text of the comment.
    pub body: String,
    /// Address of the comment's page, if the forge names it.
    pub url: Option<String>,
    /// When the comment was posted, by the forge's clock.
    pub created: Option<Timestamp>,
    /// When it last changed. On GitLab, a reply in its thread is a change, too.
    pub changed: Option<Timestamp>,
}

impl Comment {
    /// Whether the comment may have another text than the one that it was posted with.
    #[must_use]
    pub fn may_be_edited(&self) -> bool {
        match (self.created, self.changed) {
            (Some(created), Some(changed)) => changed.duration_since(created) >= CLOCK,
            _ => true,
        }
    }
}

/// How a new text takes the place of an older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal<'t> {
    /// The comment is edited. It must approve nothing: every job of the account can edit it.
    InPlace,
    /// A new comment takes its place, and the older one is deleted. A comment that was not edited,
    /// and differs only in the time of its text, stays.
    Anew {
        /// The time as it is written in the text.
        time: &'t str,
    },
}

/// How a comment got its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A new comment was posted.
    Created,
    /// The existing comment was edited.
    Updated,
    /// A new comment was posted, and an older one was deleted.
    Replaced,
    /// The existing comment already had the text.
    Unchanged,
}

/// A posted comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// How the comment got its text.
    pub how: How,
    pub comment: Comment,
    /// Number of further comments by the same account with the marker, which were deleted.
    pub doubles: usize,
    /// Number of comments of others with its marker, which were left alone.
    pub forged: usize,
}

/// The outcome of [`post`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The comment was posted, or has the text already.
    Posted(Posted),
    /// The pull request has another last commit, which is here if it is known: the text is outdated,
    /// and nothing was posted.
    MovedOn(Option<String>),
}

/// Makes `text` the one comment with this marker. With a `head`, only if that is still the last
/// commit of the pull request. Retries for the time of `patience`.
///
/// # Errors
/// Fails if the forge refuses it, or does not answer in time.
pub fn post(
    client: &Client,
    place: &Place,
    marker: &Marker,
    text: &str,
    renewal: Renewal<'_>,
    head: Option<&str>,
    patience: Duration,
) -> Result<Outcome, ForgeError> {
    let text = marker.before(text);
    let limit = client.routes.kind.limit();
    if text.chars().count() > limit {
        return Err(ForgeError::Misconfigured(format!(
            "the comment is longer than {limit} characters"
        )));
    }
    // An attempt repeats every step: the answer to a POST that succeeded may be lost.
    patiently(patience, || {
        let Some(discussion) = discussion(client, place)? else {
            return Ok(Outcome::MovedOn(None));
        };
        if let Some(seen) = discussion.moved_on(head)? {
            return Ok(Outcome::MovedOn(Some(seen)));
        }
        let posted = match renewal {
            Renewal::InPlace => discussion.update(marker, &text),
            Renewal::Anew { time } => discussion.replace(marker, &text, time),
        };
        posted.map(Outcome::Posted)
    })
}

/// The comments of ours with this marker, the oldest first.
///
/// # Errors
/// Fails if the forge refuses it, or does not answer in time.
pub fn find(
    client: &Client,
    repository: &Repository,
    number: u64,
    marker: &Marker,
    patience: Duration,
) -> Result<Vec<Comment>, ForgeError> {
    let discussion = Discussion {
        client,
        repository,
        number,
    };
    patiently(patience, || {
        let me = client.my_name()?;
        Ok(discussion.marked(&me, marker)?.ours)
    })
}

/// `None` if the pull request of the branch has another last commit by now.
fn discussion<'c>(
    client: &'c Client,
    place: &'c Place,
) -> Result<Option<Discussion<'c>>, ForgeError> {
    let Place {
        repository,
        pull_request,
    } = place;
    let number = match pull_request {
        PullRequest::Number(number) => Some(*number),
        PullRequest::OfBranch {
            owner,
            branch,
            commit,
        } => number_of(client, repository, owner, branch, commit)?,
    };
    Ok(number.map(|number| Discussion {
        client,
        repository,
        number,
    }))
}

fn number_of(
    client: &Client,
    repository: &Repository,
    owner: &str,
    branch: &str,
    commit: &str,
) -> Result<Option<u64>, ForgeError> {
    let request = client.routes.of_branch(repository, owner, branch);
    let answer = client.ask(&request)?;
    Ok(client.routes.number_of(&answer, commit))
}

/// The comments of one pull request.
struct Discussion<'c> {
    client: &'c Client,
    repository: &'c Repository,
    number: u64,
}

/// Comments with a marker.
#[derive(Debug, Default, PartialEq, Eq)]
struct Marked {
    /// Comments with the marker by the token's account, the oldest first.
    ours: Vec<Comment>,
    /// Number of comments with the marker by other accounts.
    forged: usize,
}

/// Splits the comments with the marker by whether the account `me` wrote them.
fn marked(comments: BTreeMap<u64, Comment>, me: &str, marker: &Marker) -> Marked {
    let mut found = Marked::default();
    for comment in comments.into_values() {
        match (marker.is_in(&comment.body), comment.author == me) {
            (true, true) => found.ours.push(comment),
            (true, false) => found.forged += 1,
            (false, _) => {}
        }
    }
    found
}

/// Whether two texts differ only in a time that one of them has.
fn differ_only_in(time: &str, text: &str, other: &str) -> bool {
    let other = other.replace("\r\n", "\n");
    let Some((before, after)) = text.trim_end().rsplit_once(time) else {
        return text.trim_end() == other.trim_end();
    };
    let rest = other.trim_end().strip_prefix(before);
    let time = rest.and_then(|rest| rest.strip_suffix(after));
    time.is_some_and(|time| time.parse::<Timestamp>().is_ok())
}

impl Discussion<'_> {
    fn update(&self, marker: &Marker, text: &str) -> Result<Posted, ForgeError> {
        let me = self.client.my_name()?;
        let Marked { ours, forged } = self.marked(&me, marker)?;
        if let Some((first, doubles)) = ours.split_first() {
            return self.edit(first, doubles, text, forged);
        }
        let created = self.create(text)?;
        // Another job may have posted at the same time: both jobs keep the oldest comment.
        let Marked { ours, forged } = self.marked(&me, marker)?;
        match ours.split_first() {
            Some((first, doubles)) if first.id != created.id => {
                self.edit(first, doubles, text, forged)
            }
            _ => Ok(Posted {
                how: How::Created,
                comment: created,
                doubles: 0,
                forged,
            }),
        }
    }

    fn edit(
        &self,
        first: &Comment,
        doubles: &[Comment],
        text: &str,
        forged: usize,
    ) -> Result<Posted, ForgeError> {
        let routes = &self.client.routes;
        let comment = self.write(&routes.update(self.repository, self.number, first.id, text))?;
        self.delete(doubles)?;
        Ok(Posted {
            how: How::Updated,
            comment,
            doubles: doubles.len(),
            forged,
        })
    }

    /// Replaces the comment. Of two jobs at the same time, the younger comment deletes the older
    /// one.
    fn replace(&self, marker: &Marker, text: &str, time: &str) -> Result<Posted, ForgeError> {
        let me = self.client.my_name()?;
        let Marked { mut ours, forged } = self.marked(&me, marker)?;
        let is_current =
            |one: &Comment| !one.may_be_edited() && differ_only_in(time, text, &one.body);
        if let Some(comment) = ours.pop_if(|last| is_current(last)) {
            self.delete(&ours)?;
            return Ok(Posted {
                how: How::Unchanged,
                comment,
                doubles: ours.len(),
                forged,
            });
        }
        let comment = self.create(text)?;
        let Marked { mut ours, forged } = self.marked(&me, marker)?;
        ours.retain(|one| one.id < comment.id);
        self.delete(&ours)?;
        Ok(Posted {
            how: match ours.is_empty() {
                true => How::Created,
                false => How::Replaced,
            },
            comment,
            doubles: ours.len().saturating_sub(1),
            forged,
        })
    }

    fn create(&self, text: &str) -> Result<Comment, ForgeError> {
        let routes = &self.client.routes;
        self.write(&routes.create(self.repository, self.number, text))
    }

    fn delete(&self, comments: &[Comment]) -> Result<(), ForgeError> {
        for comment in comments {
            let routes = &self.client.routes;
            let request = routes.delete(self.repository, self.number, comment.id);
            match self.client.ask(&request) {
                // Another job deleted the comment first.
                Ok(_) | Err(ForgeError::Denied { status: 404, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn marked(&self, me: &str, marker: &Marker) -> Result<Marked, ForgeError> {
        Ok(marked(self.comments()?, me, marker))
    }

    /// All comments by number, the oldest first.
    fn comments(&self) -> Result<BTreeMap<u64, Comment>, ForgeError> {
        let mut all = BTreeMap::new();
        for page in 1..=PAGES {
            let request = self
                .client
                .routes
                .comments(self.repository, self.number, page);
            let answer = self.client.ask(&request)?;
            let Value::Array(listed) = answer else {
                return Err(self.client.unexpected(&request, "it is not a list"));
            };
            let (known, length) = (all.len(), listed.len());
            let comments = listed
                .iter()
                .filter_map(|one| self.client.routes.comment(one));
            all.extend(comments.map(|comment| (comment.id, comment)));
            // A server without pages repeats the same list.
            if length < PAGE || all.len() == known {
                return Ok(all);
            }
        }
        Err(ForgeError::Misconfigured(format!(
            "the pull request has more than {} comments: delete old ones, or open another pull request",
            PAGES * PAGE
        )))
    }

    /// The last commit of the pull request, if it is not the expected one.
    fn moved_on(&self, expected: Option<&str>) -> Result<Option<String>, ForgeError> {
        let Some(expected) = expected else {
            return Ok(None);
        };
        let routes = &self.client.routes;
        let request = routes.pull_request(self.repository, self.number);
        let head = routes.head(&self.client.ask(&request)?);
        match head {
            Some(head) => Ok((head != expected).then_some(head)),
            None => Err(self.client.unexpected(&request, "it names no last commit")),
        }
    }

    fn write(&self, request: &Request) -> Result<Comment, ForgeError> {
        let answer = self.client.ask(request)?;
        let comment = self.client.routes.comment(&answer);
        comment.ok_or_else(|| self.client.unexpected(request, "it is not a comment"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comment(id: u64, author: &str, body: String) -> (u64, Comment) {
        let author = author.to_owned();
        let url = None;
        (
            id,
            Comment {
                id,
                author,
                body,
                url,
                created: None,
                changed: None,
            },
        )
    }

    #[test]
    fn only_comments_of_our_own_account_are_ours() {
        let marker = Marker::new(&["pools"]);
        let with = |text: &str| marker.before(text);
        let all = BTreeMap::from([
            comment(9, "bot", with("double")),
            comment(3, "mallory", with("forged")),
            comment(4, "Bot", with("another account")),
            comment(5, "bot", with("first")),
            comment(
                6,
                "bot",
                Marker::new(&["other"]).before("another directory"),
            ),
            comment(7, "bot", format!("see:\n{marker}")),
            comment(8, "", with("a deleted account")),
        ]);
        let found = marked(all, "bot", &marker);
        let ours: Vec<u64> = found.ours.iter().map(|comment| comment.id).collect();
        assert_eq!((ours, found.forged), (vec![5, 9], 3));
    }

    #[test]
    fn a_younger_change_is_an_edit() {
        let (_, mut one) = comment(1, "bot", String::new());
        assert!(one.may_be_edited(), "the forge does not tell");
        one.created = "2026-01-01T00:00:00.250Z".parse().ok();
        for (changed, is_edited) in [
            ("2026-01-01T00:00:00.250Z", false),
            ("2026-01-01T00:00:00.900Z", false),
            ("2026-01-01T00:00:02Z", true),
        ] {
            one.changed = changed.parse().ok();
            assert_eq!(one.may_be_edited(), is_edited, "{changed}");
        }
    }

    #[test]
    fn only_the_time_of_a_text_may_differ() {
        let time = "2026-01-01T00:00:00Z";
        let text = format!("seen `{time}`\nmade `{time}`\nend\n");
        let other = |made: &str| format!("seen `{time}`\r\nmade `{made}`\r\nend");
        assert!(differ_only_in(time, &text, &other("2026-01-02T00:00:00Z")));
        assert!(!differ_only_in(time, &text, &other("tomorrow")));
        assert!(!differ_only_in(
            time,
            &text,
            &other(time).replace("seen", "shown")
        ));
    }
}

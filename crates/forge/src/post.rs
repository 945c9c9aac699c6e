//! Posts a comment, or updates the one that is there: only one of our own, whoever copied its
//! marker. Must never know what the comment says.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::patience::patiently;
use crate::routes::{PAGE, Request};
use crate::{Client, ForgeError, Marker, Place, PullRequest, Repository};

/// Most pages of comments that are read.
const PAGES: usize = 100;

/// What remains of a double.
const FOLDED: &str = "Outdated: an older comment of this pull request has the current plan.";

/// A comment of a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Its number.
    pub id: u64,
    /// The name of its author's account.
    pub author: String,
    /// Its text.
    pub body: String,
    /// Its page, where the forge names it.
    pub url: Option<String>,
    /// When it got its text, by the forge's clock.
    pub changed: Option<Timestamp>,
}

/// How a comment got its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It is new.
    Created,
    /// It had an older text.
    Updated,
}

/// A posted comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// How it got its text.
    pub how: How,
    /// The comment.
    pub comment: Comment,
    /// Number of other comments of ours with its marker, which were folded.
    pub folded: usize,
    /// Number of comments of others with its marker, which were left alone.
    pub forged: usize,
}

/// The outcome of [`post`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The comment has the text.
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
    // All of it again: the answer to a POST that succeeded may be lost.
    patiently(patience, || attempt(client, place, marker, &text, head))
}

/// The oldest comment of ours with this marker.
///
/// # Errors
/// Fails if the forge refuses it, or does not answer in time.
pub fn find(
    client: &Client,
    repository: &Repository,
    number: u64,
    marker: &Marker,
    patience: Duration,
) -> Result<Option<Comment>, ForgeError> {
    let discussion = Discussion {
        client,
        repository,
        number,
    };
    patiently(patience, || {
        let me = client.my_name()?;
        let Marked { ours, forged: _ } = marked(discussion.comments()?, &me, marker);
        Ok(ours.into_iter().next())
    })
}

fn attempt(
    client: &Client,
    place: &Place,
    marker: &Marker,
    text: &str,
    head: Option<&str>,
) -> Result<Outcome, ForgeError> {
    let Place {
        repository,
        pull_request,
    } = place;
    let number = match pull_request {
        PullRequest::Number(number) => *number,
        PullRequest::OfBranch {
            owner,
            branch,
            commit,
        } => match number_of(client, repository, owner, branch, commit)? {
            Some(number) => number,
            None => return Ok(Outcome::MovedOn(None)),
        },
    };
    let discussion = Discussion {
        client,
        repository,
        number,
    };
    if let Some(expected) = head {
        let seen = discussion.head()?;
        if seen != expected {
            return Ok(Outcome::MovedOn(Some(seen)));
        }
    }
    discussion.make_sticky(marker, text).map(Outcome::Posted)
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
    /// Of our own, the oldest first.
    ours: Vec<Comment>,
    /// Number of those of others.
    forged: usize,
}

/// The comments with the marker, by whether they are ours.
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

impl Discussion<'_> {
    fn make_sticky(&self, marker: &Marker, text: &str) -> Result<Posted, ForgeError> {
        let me = self.client.my_name()?;
        let Marked { ours, forged } = marked(self.comments()?, &me, marker);
        if let Some((first, doubles)) = ours.split_first() {
            return self.update(How::Updated, first, doubles, text, forged);
        }
        let routes = &self.client.routes;
        let created = self.write(&routes.create(self.repository, self.number, text))?;
        // Another job may have posted at the same time: both keep the oldest one.
        let Marked { ours, forged } = marked(self.comments()?, &me, marker);
        match ours.split_first() {
            Some((first, doubles)) if first.id != created.id => {
                self.update(How::Updated, first, doubles, text, forged)
            }
            _ => Ok(Posted {
                how: How::Created,
                comment: created,
                folded: 0,
                forged,
            }),
        }
    }

    fn update(
        &self,
        how: How,
        first: &Comment,
        doubles: &[Comment],
        text: &str,
        forged: usize,
    ) -> Result<Posted, ForgeError> {
        let routes = &self.client.routes;
        let write = |comment: &Comment, text: &str| {
            self.write(&routes.update(self.repository, self.number, comment.id, text))
        };
        let comment = write(first, text)?;
        for double in doubles {
            write(double, FOLDED)?;
        }
        Ok(Posted {
            how,
            comment,
            folded: doubles.len(),
            forged,
        })
    }

    /// All comments by number: the oldest first.
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
            // A server without pages answers with the same list again.
            if length < PAGE || all.len() == known {
                return Ok(all);
            }
        }
        Err(ForgeError::Misconfigured(format!(
            "the pull request has more than {} comments: delete old ones, or open another pull request",
            PAGES * PAGE
        )))
    }

    fn head(&self) -> Result<String, ForgeError> {
        let request = self
            .client
            .routes
            .pull_request(self.repository, self.number);
        let answer = self.client.ask(&request)?;
        let head = self.client.routes.head(&answer);
        head.ok_or_else(|| self.client.unexpected(&request, "it names no last commit"))
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
}

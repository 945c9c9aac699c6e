//! Reads a commit object. Its text comes from strangers: names, times and messages of any form.

use jiff::Timestamp;

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    pub id: String,
    pub parents: Vec<String>,
    pub author: String,
    pub email: String,
    /// When it was committed, by the committer's clock; `None` if the commit has no readable time.
    pub committed: Option<Timestamp>,
    pub message: String,
}

/// Longest message that is kept, in bytes. The subject and the line of a pull request are far shorter.
const LONGEST_MESSAGE: usize = 64 * 1024;

impl Commit {
    /// Reads what is there: a missing header leaves its field empty.
    pub(super) fn read(id: &str, object: &[u8]) -> Commit {
        let mut commit = Commit {
            id: id.to_owned(),
            parents: Vec::new(),
            author: String::new(),
            email: String::new(),
            committed: None,
            message: String::new(),
        };
        let mut rest = object;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line = &rest[..end];
            rest = &rest[end + 1..];
            if line.is_empty() {
                break;
            }
            commit.header(&String::from_utf8_lossy(line));
        }
        let message = &rest[..rest.len().min(LONGEST_MESSAGE)];
        commit.message = String::from_utf8_lossy(message).into_owned();
        commit
    }

    fn header(&mut self, line: &str) {
        match line.split_once(' ') {
            Some(("parent", id)) => self.parents.push(id.to_owned()),
            Some(("author", person)) => {
                let (name, rest) = person.split_once('<').unwrap_or((person, ""));
                let email = rest.rsplit_once('>').map_or(rest, |(email, _)| email);
                self.author = name.trim().to_owned();
                self.email = email.trim().to_owned();
            }
            Some(("committer", person)) => self.committed = time_of(person),
            _ => {}
        }
    }

    /// The first line of the message.
    pub fn subject(&self) -> &str {
        let lines = self.message.lines();
        lines
            .map(str::trim)
            .find(|line| !line.is_empty())
            .unwrap_or_default()
    }
}

/// `Name <email> <seconds> <zone>`
fn time_of(person: &str) -> Option<Timestamp> {
    let (_, after) = person.rsplit_once('>')?;
    let seconds = after.split_ascii_whitespace().next()?.parse().ok()?;
    Timestamp::from_second(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_message_are_read() {
        let object = b"tree t\nparent p1\nparent p2\nauthor Ada L <ada@x> 1 +0000\ncommitter Bob <b@x> 1767225600 +0100\ngpgsig -----BEGIN\n parent fake\n\n\nPin worker-7 (#12)\n\nauthor Eve <e> 2 +0000\n";
        let commit = Commit::read("c", object);
        assert_eq!(commit.parents, ["p1", "p2"]);
        assert_eq!((&*commit.author, &*commit.email), ("Ada L", "ada@x"));
        assert_eq!(
            commit.committed.unwrap().to_string(),
            "2026-01-01T00:00:00Z"
        );
        assert_eq!(commit.subject(), "Pin worker-7 (#12)");
    }

    #[test]
    fn a_hostile_commit_is_read_as_far_as_it_goes() {
        let object = b"author \xff<<a>> 99999999999999999999 +0\ncommitter x 7 +0\n";
        let commit = Commit::read("c", object);
        assert_eq!((&*commit.author, &*commit.email), ("\u{fffd}", "<a>"));
        assert_eq!((commit.committed, commit.subject()), (None, ""));
        assert_eq!(Commit::read("c", b"").message, "");
    }
}

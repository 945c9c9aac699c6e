//! Links of a built site and of Markdown files: each leads to a file that exists and to an anchor
//! in it. Links to other hosts are not followed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

/// Where the pages of the site are in the repository.
const SOURCES: &str = "docs/src";

/// A built site.
pub struct Site {
    root: PathBuf,
    /// By path relative to the root.
    pages: BTreeMap<PathBuf, Page>,
}

#[derive(Default)]
struct Page {
    anchors: BTreeSet<String>,
    links: Vec<String>,
}

impl Site {
    /// Reads every HTML page below `root`.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn read(root: &Path) -> Result<Self> {
        let mut pages = BTreeMap::new();
        for file in files(root, "html")? {
            let text = std::fs::read_to_string(&file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            let name = file.strip_prefix(root)?.to_owned();
            pages.insert(name, Page::of_html(&text));
        }
        Ok(Self {
            root: root.to_owned(),
            pages,
        })
    }

    /// Number of pages.
    #[must_use]
    pub fn page_count(&self) -> usize {
        self.pages.len()
    }

    /// Number of links in all pages.
    #[must_use]
    pub fn link_count(&self) -> usize {
        self.pages.values().map(|page| page.links.len()).sum()
    }

    /// The links of the site that lead nowhere.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (name, page) in &self.pages {
            for link in &page.links {
                if let Some(why) = self.fault(name, link) {
                    faults.push(format!("{}: {link}: {why}", name.display()));
                }
            }
        }
        faults
    }

    fn fault(&self, from: &Path, link: &str) -> Option<&'static str> {
        let (path, anchor) = split(link)?;
        // mdBook's page for unknown addresses is read from any folder.
        if from == Path::new("404.html") {
            return None;
        }
        let target = if path.is_empty() {
            from.to_owned()
        } else {
            resolve(from, path)
        };
        self.fault_at(&target, anchor)
    }

    fn fault_at(&self, target: &Path, anchor: &str) -> Option<&'static str> {
        match self.pages.get(target) {
            Some(page) if anchor.is_empty() || page.anchors.contains(anchor) => None,
            Some(_) => Some("unknown anchor"),
            None if self.root.join(target).is_file() => None,
            None => Some("no such page"),
        }
    }

    /// The Markdown files below `sources` that are in no page of the site: `SUMMARY.md` does not
    /// list them.
    ///
    /// # Errors
    /// Fails if a folder cannot be read.
    pub fn unlisted(&self, sources: &Path) -> Result<Vec<String>> {
        let mut faults = Vec::new();
        for file in files(sources, "md")? {
            let name = file.strip_prefix(sources)?;
            if name != Path::new("SUMMARY.md") && !self.pages.contains_key(&html_of(name)) {
                faults.push(format!("{}: not in SUMMARY.md", name.display()));
            }
        }
        Ok(faults)
    }

    /// The links of a Markdown file, relative to the repository, that lead nowhere.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn faults_of_markdown(&self, repository: &Path, name: &str) -> Result<Vec<String>> {
        let text = std::fs::read_to_string(repository.join(name))
            .with_context(|| format!("cannot read {name}"))?;
        let mut faults = Vec::new();
        for link in markdown_links(&text) {
            let Some((path, anchor)) = split(link) else {
                continue;
            };
            let target = if path.is_empty() {
                PathBuf::from(name)
            } else {
                resolve(Path::new(name), path)
            };
            let why = if !repository.join(&target).exists() {
                Some("no such file")
            } else if anchor.is_empty() {
                None
            } else if let Ok(page) = target.strip_prefix(SOURCES) {
                self.fault_at(&html_of(page), anchor)
            } else {
                let text = std::fs::read_to_string(repository.join(&target))?;
                (!headings(&text).contains(anchor)).then_some("unknown anchor")
            };
            faults.extend(why.map(|why| format!("{name}: {link}: {why}")));
        }
        Ok(faults)
    }
}

impl Page {
    fn of_html(text: &str) -> Page {
        let mut page = Page::default();
        page.anchors
            .extend(attributes(text, " id=\"").map(str::to_owned));
        for name in [" href=\"", " src=\""] {
            page.links
                .extend(attributes(text, name).map(|link| link.replace("&amp;", "&")));
        }
        page
    }
}

fn attributes<'t>(text: &'t str, name: &'t str) -> impl Iterator<Item = &'t str> {
    text.split(name)
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
}

/// Path and anchor of a link; nothing for a link to another host.
fn split(link: &str) -> Option<(&str, &str)> {
    let elsewhere = ["http://", "https://", "mailto:", "data:"];
    if elsewhere.iter().any(|scheme| link.starts_with(scheme)) {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    Some((path.split('?').next().unwrap_or(path), anchor))
}

fn resolve(from: &Path, link: &str) -> PathBuf {
    let mut target = from.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                target.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            Component::Normal(name) => target.push(name),
        }
    }
    if link.ends_with('/') {
        target.push("index.html");
    }
    target
}

fn html_of(markdown: &Path) -> PathBuf {
    let page = markdown.with_extension("html");
    if page.file_name().is_some_and(|name| name == "README.html") {
        return page.with_file_name("index.html");
    }
    page
}

/// The targets of `[text](target)` outside code.
fn markdown_links(text: &str) -> Vec<&str> {
    let mut links = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            let targets = line.split("](").skip(1);
            links.extend(targets.filter_map(|rest| rest.split(')').next()));
        }
    }
    links
}

/// The anchors that Git hosts give to the headings of a Markdown file.
fn headings(text: &str) -> BTreeSet<String> {
    let titles = text.lines().filter_map(|line| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len()).then(|| title.trim())
    });
    titles
        .map(|title| {
            let kept = title
                .chars()
                .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
            kept.collect::<String>().to_lowercase().replace(' ', "-")
        })
        .collect()
}

fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read the folder {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path, extension)?);
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> (tempfile::TempDir, Site) {
        let folder = tempfile::tempdir().unwrap();
        let page = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        page(
            "index.html",
            r##"<a href="how/a.html#known">x</a><a href="#here"></a><h2 id="here">"##,
        );
        page("how/a.html", r#"<h2 id="known"></h2><img src="../p.svg">"#);
        page("p.svg", "<svg/>");
        let site = Site::read(folder.path()).unwrap();
        (folder, site)
    }

    #[test]
    fn a_site_without_dead_links_has_no_fault() {
        let (_folder, site) = site();
        assert_eq!(site.faults(), Vec::<String>::new());
        assert_eq!((site.page_count(), site.link_count()), (2, 3));
    }

    #[test]
    fn a_missing_page_and_an_unknown_anchor_are_found() {
        let (folder, _) = site();
        let links = r##"<a href="b.html"></a><a href="../index.html#no"></a><a href="https://a.b/c#d"></a>"##;
        std::fs::write(folder.path().join("how/c.html"), links).unwrap();
        let faults = Site::read(folder.path()).unwrap().faults();
        assert_eq!(
            faults,
            [
                "how/c.html: b.html: no such page",
                "how/c.html: ../index.html#no: unknown anchor"
            ]
        );
    }

    #[test]
    fn links_of_markdown_files_lead_to_files_headings_and_pages() {
        let (folder, site) = site();
        let repository = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = repository.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("docs/src/how/a.md", "## Known\n");
        write("docs/src/new.md", "# New\n");
        write(
            "A.md",
            "# It's a Title\n[1](docs/src/how/a.md#known) [2](#its-a-title)\n```\n[3](no.md)\n```\n",
        );
        write(
            "B.md",
            "[1](docs/src/how/a.md#no) [2](A.md#no) [3](no.md)\n",
        );
        let faults = |name| site.faults_of_markdown(repository.path(), name).unwrap();
        assert_eq!(faults("A.md"), Vec::<String>::new());
        assert_eq!(
            faults("B.md"),
            [
                "B.md: docs/src/how/a.md#no: unknown anchor",
                "B.md: A.md#no: unknown anchor",
                "B.md: no.md: no such file"
            ]
        );
        let unlisted = site.unlisted(&repository.path().join("docs/src")).unwrap();
        assert_eq!(unlisted, ["new.md: not in SUMMARY.md"]);
        drop(folder);
    }
}

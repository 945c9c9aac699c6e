//! Code blocks of a Markdown document, with the markers before them: `<!-- run -->`,
//! `<!-- run: cluster -->` and `<!-- file: PATH -->`.

/// A code block.
#[derive(Debug)]
pub struct Block {
    pub document: String,
    /// Number of the opening line.
    pub line: usize,
    pub language: String,
    pub text: String,
    /// The commands run, and print the lines that follow them.
    pub runs: bool,
    /// The same, on a real API server.
    pub needs_cluster: bool,
    /// The block is written to this file of the page's folder.
    pub file: Option<String>,
}

impl Block {
    pub fn is(&self, language: &str) -> bool {
        self.language == language
    }

    pub fn place(&self) -> String {
        format!("{}:{}", self.document, self.line)
    }

    /// Whether every YAML document is of a kind that `validate` reads.
    pub fn is_for_this_program(&self) -> bool {
        let versions = self
            .text
            .lines()
            .filter(|line| line.starts_with("apiVersion:"));
        let mut versions =
            versions.map(|line| line.contains(" cilium-ipam.io/") || line.contains(" cilium.io/"));
        let first = versions.next().unwrap_or(false);
        first && versions.all(|is_ours| is_ours)
    }
}

/// The blocks of a document, in order.
pub fn blocks(document: &str, text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut markers: Vec<&str> = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim_start();
        if let Some(marker) = line.strip_prefix("<!-- ") {
            markers.push(marker.trim_end_matches(" -->"));
        } else if let Some(language) = line.strip_prefix("```") {
            let content = lines
                .by_ref()
                .map(|(_, line)| line.get(indent..).unwrap_or("").to_owned())
                .take_while(|line| line != "```");
            found.push(Block {
                document: document.to_owned(),
                line: number + 1,
                language: language.to_owned(),
                text: content.map(|line| line + "\n").collect(),
                runs: markers.contains(&"run"),
                needs_cluster: markers.contains(&"run: cluster"),
                file: markers
                    .iter()
                    .find_map(|marker| marker.strip_prefix("file: "))
                    .map(str::to_owned),
            });
            markers.clear();
        } else if !line.is_empty() {
            markers.clear();
        }
    }
    found
}

#[test]
fn markers_belong_to_the_next_block() {
    let text = "<!-- run -->\n```console\n$ a\n```\n\n- x\n  <!-- file: b/c.yaml -->\n  ```yaml\n  d: 1\n  ```\n\n<!-- run -->\nwords\n\n```sh\ne\n```\n";
    let found = blocks("X.md", text);
    let shown: Vec<_> = found
        .iter()
        .map(|block| (block.line, block.runs, block.file.as_deref(), &*block.text))
        .collect();
    assert_eq!(
        shown,
        [
            (2, true, None, "$ a\n"),
            (8, false, Some("b/c.yaml"), "d: 1\n"),
            (15, false, None, "e\n")
        ]
    );
}

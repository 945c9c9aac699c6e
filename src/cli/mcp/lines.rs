//! The messages of stdin, one per line. A line that is not JSON or is too long becomes an invalid
//! request, so that it gets an error response: the library ignores such lines. Must never know what
//! a message means.

use serde::de::IgnoredAny;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream,
};

/// Longest message, in bytes. `simulate` has whole files as arguments.
const LONGEST: u64 = 16 * 1024 * 1024;

/// Valid JSON, but not a message of the protocol.
const INVALID: &[u8] = b"{}\n";

/// Bytes that wait for the protocol.
const BUFFER: usize = 64 * 1024;

/// The messages of stdin, up to its end.
pub(super) fn messages() -> DuplexStream {
    let (reader, mut writer) = tokio::io::duplex(BUFFER);
    tokio::spawn(async move {
        let mut input = BufReader::new(tokio::io::stdin());
        // The protocol sees the end of stdin, however the copy ends.
        let _ = copy(&mut input, &mut writer, LONGEST).await;
    });
    reader
}

async fn copy(
    input: &mut (impl AsyncBufRead + Unpin),
    output: &mut (impl AsyncWrite + Unpin),
    longest: u64,
) -> std::io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        (&mut *input)
            .take(longest)
            .read_until(b'\n', &mut line)
            .await?;
        let is_whole = line.ends_with(b"\n");
        let is_too_long = !is_whole && line.len() as u64 == longest;
        if !is_whole && !is_too_long {
            return Ok(());
        }
        if is_too_long {
            skip_line(input).await?;
        }
        let is_blank = line.iter().all(u8::is_ascii_whitespace);
        let is_json = is_whole && serde_json::from_slice::<IgnoredAny>(&line).is_ok();
        let message = if is_blank || is_json { &line } else { INVALID };
        output.write_all(message).await?;
    }
}

async fn skip_line(input: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<()> {
    loop {
        let read = input.fill_buf().await?;
        let end = read.iter().position(|byte| *byte == b'\n');
        let length = read.len();
        input.consume(end.map_or(length, |end| end + 1));
        if end.is_some() || length == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn copied(input: &str, longest: u64) -> String {
        let mut output = Vec::new();
        let mut input = input.as_bytes();
        copy(&mut input, &mut output, longest).await.unwrap();
        String::from_utf8(output).unwrap()
    }

    #[tokio::test]
    async fn only_whole_json_lines_are_kept() {
        let kept = "{\"a\": [1]}\n\n[]\n";
        assert_eq!(copied(kept, 100).await, kept);
        assert_eq!(copied("{a\n[]\n{\"b\"", 100).await, "{}\n[]\n");
        let long = format!("[{}]\n[2]\n", "1,".repeat(50));
        assert_eq!(copied(&long, 10).await, "{}\n[2]\n");
        assert_eq!(copied("[1,2,3,4]", 9).await, "{}\n");
    }
}

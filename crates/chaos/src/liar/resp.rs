//! Redis's protocol, as far as its clients here speak it.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

/// The longest part of a command that is taken.
const LONGEST: usize = 64 * 1024 * 1024;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Simple(&'static str),
    Error(String),
    Integer(i64),
    Bulk(String),
    Array(Vec<Value>),
}

impl Value {
    pub(super) fn texts<I: IntoIterator<Item = String>>(texts: I) -> Self {
        Self::Array(texts.into_iter().map(Self::Bulk).collect())
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut Vec<u8>) {
        let head = match self {
            Self::Simple(text) => format!("+{text}\r\n"),
            Self::Error(text) => format!("-{text}\r\n"),
            Self::Integer(number) => format!(":{number}\r\n"),
            Self::Bulk(text) => format!("${}\r\n{text}\r\n", text.len()),
            Self::Array(values) => format!("*{}\r\n", values.len()),
        };
        out.extend_from_slice(head.as_bytes());
        if let Self::Array(values) = self {
            values.iter().for_each(|value| value.write(out));
        }
    }
}

/// Reads a command: an array of texts. `None` at the end of the connection.
pub(super) async fn read_command(
    reads: &mut (impl AsyncBufRead + Unpin),
) -> std::io::Result<Option<Vec<String>>> {
    let Some(count) = read_count(reads, '*').await? else {
        return Ok(None);
    };
    let mut words = Vec::with_capacity(count.min(64));
    for _ in 0..count {
        let Some(length) = read_count(reads, '$').await? else {
            return Ok(None);
        };
        let mut word = vec![0; length.min(LONGEST) + 2];
        reads.read_exact(&mut word).await?;
        word.truncate(length);
        words.push(String::from_utf8_lossy(&word).into_owned());
    }
    Ok(Some(words))
}

async fn read_count(
    reads: &mut (impl AsyncBufRead + Unpin),
    mark: char,
) -> std::io::Result<Option<usize>> {
    let mut line = String::new();
    if reads.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let count = line.trim_end().strip_prefix(mark).map(str::parse);
    match count {
        Some(Ok(count)) => Ok(Some(count)),
        _ => Err(std::io::Error::other("not a command")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn commands_and_answers_are_framed() {
        let mut wire = &b"*2\r\n$4\r\nPING\r\n$0\r\n\r\n"[..];
        let command = read_command(&mut wire).await.unwrap();
        assert_eq!(command, Some(vec!["PING".to_owned(), String::new()]));
        assert_eq!(read_command(&mut wire).await.unwrap(), None);
        let answer = Value::Array(vec![Value::Bulk("a".to_owned()), Value::Integer(-1)]);
        assert_eq!(answer.bytes(), b"*2\r\n$1\r\na\r\n:-1\r\n");
    }
}

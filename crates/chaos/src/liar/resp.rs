//! Redis's protocol, as far as its clients here speak it.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

/// The longest part of a command that is taken.
const LONGEST: usize = 64 * 1024 * 1024;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Nil,
    Error(String),
    Integer(i64),
    Text(String),
    Array(Vec<Value>),
}

impl Value {
    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    pub(super) fn texts<I: IntoIterator<Item = String>>(texts: I) -> Self {
        Self::Array(texts.into_iter().map(Self::Text).collect())
    }

    /// The texts of an answer that is nothing but texts.
    pub(super) fn as_texts(&self) -> Option<Vec<&str>> {
        let Self::Array(values) = self else {
            return None;
        };
        let texts = values.iter().map(|value| match value {
            Self::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut Vec<u8>) {
        let head = match self {
            Self::Nil => "$-1\r\n".to_owned(),
            Self::Error(text) => format!("-{text}\r\n"),
            Self::Integer(number) => format!(":{number}\r\n"),
            Self::Text(text) => format!("${}\r\n{text}\r\n", text.len()),
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
        words.push(read_text(reads, length).await?);
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

/// Reads an answer. No script of the index answers lists within lists.
pub(super) async fn read_answer(reads: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Value> {
    let head = read_head(reads).await?;
    let Some(count) = head.strip_prefix('*') else {
        return read_single(reads, &head).await;
    };
    let Ok(count) = count.parse::<usize>() else {
        return Ok(Value::Nil);
    };
    let mut values = Vec::with_capacity(count.min(64));
    for _ in 0..count {
        let head = read_head(reads).await?;
        values.push(read_single(reads, &head).await?);
    }
    Ok(Value::Array(values))
}

async fn read_head(reads: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<String> {
    let mut line = String::new();
    if reads.read_line(&mut line).await? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

async fn read_single(
    reads: &mut (impl AsyncBufRead + Unpin),
    head: &str,
) -> std::io::Result<Value> {
    let strange = || std::io::Error::other("not an answer");
    let (mark, rest) = head.split_at_checked(1).ok_or_else(strange)?;
    match mark {
        "+" => Ok(Value::text(rest)),
        "-" => Ok(Value::Error(rest.to_owned())),
        ":" => rest.parse().map(Value::Integer).map_err(|_| strange()),
        "$" => match rest.parse::<usize>() {
            Ok(length) => Ok(Value::Text(read_text(reads, length).await?)),
            Err(_) => Ok(Value::Nil),
        },
        _ => Err(strange()),
    }
}

async fn read_text(
    reads: &mut (impl AsyncBufRead + Unpin),
    length: usize,
) -> std::io::Result<String> {
    let mut text = vec![0; length.min(LONGEST) + 2];
    reads.read_exact(&mut text).await?;
    text.truncate(length);
    Ok(String::from_utf8_lossy(&text).into_owned())
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
        let answer = Value::Array(vec![Value::text("a"), Value::Integer(-1), Value::Nil]);
        assert_eq!(answer.bytes(), b"*3\r\n$1\r\na\r\n:-1\r\n$-1\r\n");
    }

    #[tokio::test]
    async fn answers_are_read_as_they_were_written() {
        let flat = Value::Array(vec![Value::text("WAIT"), Value::Integer(7), Value::Nil]);
        for answer in [flat, Value::Nil, Value::Error("ERR no".to_owned())] {
            let bytes = answer.bytes();
            assert_eq!(read_answer(&mut &bytes[..]).await.unwrap(), answer);
        }
        assert_eq!(
            read_answer(&mut &b"+OK\r\n"[..]).await.unwrap(),
            Value::text("OK")
        );
        assert!(read_answer(&mut &b""[..]).await.is_err());
    }
}

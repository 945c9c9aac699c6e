//! The events of a watch in the encoding that the server chose. It must never know what they mean.

use std::error::Error;
use std::io;

use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use ipam_cilium::observed::{
    Encoding, ObservedKind, ProtobufEvent, ProtobufObject, cheapest_encoding, value_of_protobuf,
};
use kube::Client;
use kube::client::Body;
use kube::core::watch::{Bookmark, BookmarkMeta};
use kube::core::{Status, TypeMeta, WatchEvent};
use serde_json::Value;

use super::request::{self, PROTOBUF, encoding_of, message_or_code};

/// Bytes before each event: its length, the first byte is the highest (apimachinery
/// `pkg/util/framer/framer.go` @ 1.36).
const LENGTH_BYTES: usize = 4;

/// The largest event, in bytes. etcd takes objects of 1.5 MiB.
const MOST_BYTES: usize = 32 << 20;

pub(super) type Events = BoxStream<'static, Result<WatchEvent<Value>, kube::Error>>;

/// Opens a watch of objects whose views read this kind; without one, of whole objects.
pub(super) async fn events(
    client: &Client,
    uri: &str,
    viewed: Option<ObservedKind>,
) -> Result<Events, kube::Error> {
    if let Some(kind) = viewed
        && cheapest_encoding(kind) == Encoding::Protobuf
        && let Some(body) = protobuf(client, uri).await?
    {
        return Ok(of_protobuf(body, kind));
    }
    let request = Request::get(uri).body(Vec::new());
    let request = request.map_err(kube::Error::HttpError)?;
    let events = client.request_events::<Value>(request).await?;
    Ok(events.boxed())
}

/// The body of an answer in the binary encoding; `None` if the server, or a proxy, answers in another
/// one.
async fn protobuf(client: &Client, uri: &str) -> Result<Option<Body>, kube::Error> {
    let request = Request::get(uri)
        .header(header::ACCEPT, PROTOBUF)
        // Kubernetes 1.37 compresses watches.
        .header(
            header::ACCEPT_ENCODING,
            HeaderValue::from_static("identity"),
        )
        .body(Body::empty())
        .map_err(kube::Error::HttpError)?;
    let answer = client.send(request).await?;
    let is_protobuf = !answer.headers().contains_key(header::CONTENT_ENCODING)
        && encoding_of(answer.headers()) == Encoding::Protobuf;
    match answer.status() {
        StatusCode::NOT_ACCEPTABLE => Ok(None),
        status if status.is_success() => Ok(is_protobuf.then(|| answer.into_body())),
        status => Err(kube::Error::Api(refusal(status, answer).await.boxed())),
    }
}

async fn refusal(status: StatusCode, answer: Response<Body>) -> Status {
    let encoding = encoding_of(answer.headers());
    // A refusal whose body cannot be read still has its status code.
    let body = answer.into_body().collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    // A proxy may answer in plain text.
    let message = request::Status::read(encoding, &body).map_or_else(
        || String::from_utf8_lossy(&body).trim().to_owned(),
        |status| status.message,
    );
    Status::failure(&message_or_code(message, status), "").with_code(status.as_u16())
}

fn of_protobuf(body: Body, kind: ObservedKind) -> Events {
    let start = (body, Vec::new());
    let frames = stream::try_unfold(start, |(mut body, mut bytes)| async move {
        let frame = next_frame(&mut body, &mut bytes).await?;
        Ok::<_, kube::Error>(frame.map(|frame| (frame, (body, bytes))))
    });
    let event = move |frame: Vec<u8>| {
        let event = event_of(&frame, kind);
        std::future::ready(event.map_err(kube::Error::ReadEvents))
    };
    frames.and_then(event).boxed()
}

/// The next event; `None` at the end. An event that is cut off comes again in the next watch.
async fn next_frame(body: &mut Body, bytes: &mut Vec<u8>) -> Result<Option<Vec<u8>>, kube::Error> {
    loop {
        if let Some(frame) = take_frame(bytes).map_err(kube::Error::ReadEvents)? {
            return Ok(Some(frame));
        }
        match body.frame().await {
            None => return Ok(None),
            Some(Err(error)) if is_cut_off(&error) => return Ok(None),
            Some(Err(error)) => return Err(kube::Error::ReadEvents(io::Error::other(error))),
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    bytes.extend_from_slice(data);
                }
            }
        }
    }
}

/// Removes the first event from the bytes if it is complete.
fn take_frame(bytes: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    let length = usize::try_from(u32::from_be_bytes(*length)).map_err(io::Error::other)?;
    if length > MOST_BYTES {
        return Err(io::Error::other("an event is too large"));
    }
    let Some(frame) = rest.get(..length) else {
        return Ok(None);
    };
    let frame = frame.to_vec();
    bytes.drain(..LENGTH_BYTES + length);
    Ok(Some(frame))
}

/// Whether the server, or a proxy, ended the answer before its end. The next watch goes on from
/// there.
fn is_cut_off(error: &(dyn Error + 'static)) -> bool {
    let is_end = |error: &(dyn Error + 'static)| {
        let io = error.downcast_ref::<io::Error>();
        io.is_some_and(|io| io.kind() == io::ErrorKind::UnexpectedEof)
            || error.to_string().contains("unexpected EOF during chunk")
    };
    let mut next = Some(error);
    while let Some(error) = next {
        if is_end(error) {
            return true;
        }
        next = error.source();
    }
    false
}

fn event_of(frame: &[u8], kind: ObservedKind) -> io::Result<WatchEvent<Value>> {
    let value = |object: ProtobufObject<'_>| {
        let expected = kind.api_version_and_kind().1;
        if object.kind != expected {
            return Err(io::Error::other(format!(
                "expected an event of a {expected}"
            )));
        }
        value_of_protobuf(kind, object.object).map_err(io::Error::other)
    };
    Ok(
        match ProtobufEvent::read(frame).map_err(io::Error::other)? {
            ProtobufEvent::Changed(object) => WatchEvent::Modified(value(object)?),
            ProtobufEvent::Deleted(object) => WatchEvent::Deleted(value(object)?),
            ProtobufEvent::Bookmark(object) => {
                WatchEvent::Bookmark(bookmark(kind, &value(object)?)?)
            }
            ProtobufEvent::Error(status) => {
                let code = u16::try_from(status.code).unwrap_or_default();
                WatchEvent::Error(Status::failure(&status.message, "").with_code(code).boxed())
            }
        },
    )
}

fn bookmark(kind: ObservedKind, object: &Value) -> io::Result<Bookmark> {
    let (api_version, kind) = kind.api_version_and_kind();
    let version = object["metadata"]["resourceVersion"].as_str();
    let version = version.ok_or_else(|| io::Error::other("a bookmark has no resourceVersion"))?;
    Ok(Bookmark {
        types: TypeMeta {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        },
        metadata: BookmarkMeta {
            resource_version: version.to_owned(),
            annotations: std::collections::BTreeMap::new(),
        },
    })
}

#[cfg(test)]
mod tests;

//! Requests to the kernel about links, addresses and routes (rtnetlink(7)), one at a time. The socket
//! stays in the network namespace in which it was opened. Must never know what messages mean.

use std::io;
use std::time::Duration;

use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NLA_F_NESTED, NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR,
    NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    NetlinkSerializable, NlasIterator,
};
use netlink_sys::Socket;
use netlink_sys::constants::NETLINK_ROUTE;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

/// Attempts at a list that changes while the kernel sends it.
const TRIES: usize = 8;

/// Limit for an answer. The kernel answers at once unless it is very busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// Alignment of messages, in bytes.
const ALIGNED: usize = 4;

/// Bytes of length and kind before the value of an attribute.
const ATTRIBUTE_HEADER: usize = 4;

/// A message: its kind, and its fixed part with the attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: u16,
    pub(crate) body: Vec<u8>,
}

impl Message {
    pub(crate) fn new(kind: u16, fixed: &[u8], attributes: &[DefaultNla]) -> Message {
        let mut body = fixed.to_vec();
        let start = body.len();
        body.resize(start + attributes.buffer_len(), 0);
        attributes.emit(&mut body[start..]);
        Message { kind, body }
    }

    /// The fixed part of this length, and the attributes.
    pub(crate) fn parts(&self, fixed: usize) -> io::Result<(&[u8], Attributes<'_>)> {
        let (fixed, rest) = self
            .body
            .split_at_checked(fixed)
            .ok_or_else(|| malformed(&"a message is too short"))?;
        Ok((fixed, attributes(rest)?))
    }
}

/// An attribute that contains attributes, after a fixed part.
pub(crate) fn nested(kind: u16, fixed: &[u8], attributes: &[DefaultNla]) -> DefaultNla {
    let Message { kind, body } = Message::new(kind, fixed, attributes);
    DefaultNla::new(kind | NLA_F_NESTED, body)
}

/// Attributes by number, without the flag bits.
pub(crate) type Attributes<'b> = Vec<(u16, &'b [u8])>;

/// Parses the attributes of a message, or those within an attribute.
pub(crate) fn attributes(bytes: &[u8]) -> io::Result<Attributes<'_>> {
    NlasIterator::new(bytes)
        .map(|attribute| {
            let attribute = attribute.map_err(|why| malformed(&why))?;
            let (kind, length) = (attribute.kind(), usize::from(attribute.length()));
            let value = attribute.into_inner().get(ATTRIBUTE_HEADER..length);
            Ok((
                kind,
                value.ok_or_else(|| malformed(&"an attribute is too short"))?,
            ))
        })
        .collect()
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.body.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.body);
    }
}

impl NetlinkDeserializable for Message {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Message, DecodeError> {
        Ok(Message {
            kind: header.message_type,
            body: payload.to_vec(),
        })
    }
}

/// A connection to the kernel in one namespace.
pub(crate) struct Netlink {
    socket: Socket,
    sequence: std::cell::Cell<u32>,
}

impl Netlink {
    /// Opens a route socket in the network namespace of the calling thread.
    pub(crate) fn open() -> io::Result<Netlink> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        // Lets the kernel filter routes by link (Linux 4.20).
        let _ = socket.set_netlink_get_strict_chk(true);
        // Without a timeout, a lost answer would block the runtime.
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        Ok(Netlink {
            socket,
            sequence: std::cell::Cell::new(0),
        })
    }

    pub(crate) fn change(&self, message: Message, flags: u16) -> io::Result<()> {
        self.ask(message, NLM_F_REQUEST | NLM_F_ACK | flags)
            .map(drop)
    }

    /// Requests a single object from the kernel.
    pub(crate) fn get(&self, message: Message) -> io::Result<Option<Message>> {
        let answer = self.ask(message, NLM_F_REQUEST | NLM_F_ACK)?;
        Ok(answer.into_iter().flatten().next())
    }

    /// Requests a list of objects from the kernel.
    pub(crate) fn list(&self, message: &Message) -> io::Result<Vec<Message>> {
        for _ in 0..TRIES {
            if let Some(list) = self.ask(message.clone(), NLM_F_REQUEST | NLM_F_DUMP)? {
                return Ok(list);
            }
        }
        Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "the kernel's list keeps changing",
        ))
    }

    /// Sends a request and reads the answer; `None` if the list changed meanwhile.
    fn ask(&self, message: Message, flags: u16) -> io::Result<Option<Vec<Message>>> {
        let mut request = NetlinkMessage::new(
            NetlinkHeader::default(),
            NetlinkPayload::InnerMessage(message),
        );
        self.sequence.set(self.sequence.get().wrapping_add(1));
        (request.header.flags, request.header.sequence_number) = (flags, self.sequence.get());
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let (mut answer, mut is_whole) = (Vec::new(), true);
        loop {
            let (bytes, sender) = self.socket.recv_from_full()?;
            // Root in a Pod can also write to this socket.
            if sender.port_number() != 0 {
                continue;
            }
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let message =
                    NetlinkMessage::<Message>::deserialize(rest).map_err(|why| malformed(&why))?;
                let length = (message.header.length as usize)
                    .next_multiple_of(ALIGNED)
                    .max(ALIGNED);
                rest = rest.get(length..).unwrap_or_default();
                if message.header.sequence_number != self.sequence.get() {
                    continue;
                }
                is_whole &= message.header.flags & NLM_F_DUMP_INTR == 0;
                match message.payload {
                    NetlinkPayload::InnerMessage(inner) => answer.push(inner),
                    NetlinkPayload::Done(done) if done.code < 0 => {
                        return Err(io::Error::from_raw_os_error(-done.code));
                    }
                    NetlinkPayload::Done(_) => return Ok(is_whole.then_some(answer)),
                    NetlinkPayload::Error(error) => match error.code {
                        None => return Ok(Some(answer)),
                        Some(_) => return Err(error.to_io()),
                    },
                    _ => return Err(malformed(&"the answer is incomplete")),
                }
            }
        }
    }
}

pub(crate) fn malformed(why: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("malformed answer of the kernel: {why}"),
    )
}

//! The socket between a call and its shim: whole messages, one of which carries a descriptor.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// The longest message.
const MESSAGE_MAX: usize = 32 * 1024;

/// Both ends of a new socket.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends a message, and `passed` with it. Never blocks.
pub(super) fn send(
    socket: impl AsFd,
    message: &[u8],
    passed: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut attached = SendAncillaryBuffer::new(&mut space);
    let passed: Vec<_> = passed.into_iter().collect();
    if !passed.is_empty() {
        attached.push(SendAncillaryMessage::ScmRights(&passed));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(message)], &mut attached, flags)?;
    Ok(())
}

/// The next message that is there, and what was passed with it; empty when the other end is closed.
/// Never blocks.
pub(super) fn receive(socket: impl AsFd) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut message = vec![0; MESSAGE_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut attached = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let mut next = || recvmsg(&socket, &mut [IoSliceMut::new(&mut message)], &mut attached, flags);
    // The other end was closed before it had read everything, which is told once, and before what
    // it had sent itself.
    let received = match next() {
        Err(Errno::CONNRESET) => next()?,
        received => received?,
    };
    message.truncate(received.bytes);
    let mut passed = attached.drain().filter_map(|with| match with {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok((message, passed.next()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn messages_keep_their_bounds_and_carry_a_file() {
        let (ours, theirs) = pair().unwrap();
        let file = super::super::super::stdin::holding("given").unwrap();
        send(&ours, b"first", Some(file.as_fd())).unwrap();
        send(&ours, b"second", None).unwrap();
        let (message, passed) = receive(&theirs).unwrap();
        assert_eq!(message, b"first");
        let mut text = String::new();
        std::fs::File::from(passed.unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "given");
        let (message, passed) = receive(&theirs).unwrap();
        assert!(message == b"second" && passed.is_none());
        assert_eq!(receive(&theirs).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        send(&theirs, b"report", None).unwrap();
        send(&ours, b"not read by", None).unwrap();
        drop(theirs);
        assert_eq!(receive(&ours).unwrap().0, b"report");
        // A child that another test begins at this instant has it open until it runs its program.
        let end = loop {
            match receive(&ours) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                end => break end.unwrap().0,
            }
        };
        assert_eq!(end, b"");
        assert!(send(&ours, b"to nobody", None).is_err());
    }
}

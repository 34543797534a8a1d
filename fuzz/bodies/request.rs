//! A frame as a stranger sends it. Reading it must not panic, and what has been read can be written, read and written
//! again to the same bytes.

use bytes::{Bytes, BytesMut};
use wire::api::{self, Request, Visitor};
use wire::frame::RequestHeader;
use wire::{Reader, Wire, Writer};

struct Body<'a, 'b> {
    reader: &'a mut Reader<'b>,
}

impl Visitor for Body<'_, '_> {
    type Output = ();

    fn visit<R: Request>(self) {
        let (version, flexible) = (self.reader.version(), self.reader.flexible());
        let Ok(request) = R::read(self.reader) else { return };
        let written = write(&request, version, flexible);
        let again = R::read(&mut Reader::new(&written, version, flexible)).expect("what was written can be read");
        assert_eq!(write(&again, version, flexible), written);
    }
}

fn write(message: &impl Wire, version: i16, flexible: bool) -> Bytes {
    let mut out = BytesMut::new();
    message.write(&mut Writer::new(&mut out, version, flexible));
    out.freeze()
}

pub(crate) fn run(data: &[u8]) {
    let frame = Bytes::copy_from_slice(data);
    let mut reader = Reader::new(&frame, 0, false);
    let Ok(header) = RequestHeader::read(&mut reader) else { return };
    // The header of an ApiVersions request that is too new is read, its body is not.
    if api::find(header.api_key).is_some_and(|api| api.versions.contains(&header.api_version)) {
        api::visit(header.api_key, Body { reader: &mut reader });
    }
}

//! The remaining operations: ioctl, poll, syncfs, and requests that have no reply or no meaning here.

use super::{Dispatcher, OperationResult, caller};
use crate::fuse::protocol::reply::Reply;
use crate::fuse::protocol::request::{Operation, Request};
use crate::fuse::protocol::wire;
use vnode::{Errno, FileKind};

/// Maximum size of ioctl data in bytes: the kernel allows one page per direction in this form; a command number cannot encode
/// more than 16 KiB.
const IOCTL_DATA_BYTES_MAX: u32 = 16 << 10;

impl Dispatcher {
    pub(crate) fn control_operation(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> OperationResult {
        match &request.operation {
            Operation::Ioctl { arguments, data } => self.ioctl(request, arguments, data, reply),
            Operation::Poll(arguments) => {
                let opened = self.open_file(arguments.handle)?;
                let caller = caller(request, 0);
                let mut events = opened.file.poll(&caller, arguments.events)?;
                let is_to_be_woken = events == 0 && arguments.flags & wire::POLL_SCHEDULE_NOTIFY != 0;
                if is_to_be_woken && !self.pollers.add(&opened, arguments) {
                    // The caller may try, and need not wait forever.
                    events = arguments.events;
                }
                reply.put(&wire::PollOut { events, padding: 0 });
                Ok(())
            }
            Operation::SyncFs => self.file_system.sync(),
            Operation::Destroy => Ok(()),
            Operation::Init(_) => Err(Errno::EIO),
            _ => Err(Errno::ENOSYS),
        }
    }

    fn ioctl(
        &self,
        request: &Request<'_>,
        arguments: &wire::IoctlIn,
        data: &[u8],
        reply: &mut Reply<'_>,
    ) -> OperationResult {
        if arguments.flags & wire::ioctl::UNRESTRICTED != 0 || arguments.out_size > IOCTL_DATA_BYTES_MAX {
            return Err(Errno::ENOTTY);
        }
        let node = self.node(request.node)?;
        let caller = caller(request, 0);
        let mut output = vec![0; arguments.out_size as usize];
        let result = match self.open_files.get(arguments.handle) {
            Some(opened) if node.vnode.kind() != FileKind::Directory => {
                opened.file.ioctl(&caller, arguments.command, data, &mut output)?
            }
            _ => node.vnode.ioctl(&caller, arguments.command, data, &mut output)?,
        };
        if arguments.command >> 30 & wire::ioctl::DIRECTION_WRITE != 0 {
            // Flags that it sets may be visible in the attributes, and the change time is.
            self.notifications.invalidate_attributes(node.id);
        }
        reply.put(&wire::IoctlOut { result, flags: 0, in_iovs: 0, out_iovs: 0 });
        reply.put_bytes(&output);
        Ok(())
    }
}

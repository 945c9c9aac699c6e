//! File names of interfaces.

use crate::cni::Attachment;

/// Separates container and interface. No container id contains it.
const SEPARATOR: char = '@';

pub fn file_name(attachment: &Attachment) -> String {
    format!(
        "{}{SEPARATOR}{}",
        attachment.container, attachment.interface
    )
}

/// The interface of a file; `None` for other files.
pub fn attachment(file_name: &str) -> Option<Attachment> {
    let (container, interface) = file_name.split_once(SEPARATOR)?;
    Some(Attachment {
        container: container.parse().ok()?,
        interface: interface.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_interface_has_a_file() {
        let one = Attachment {
            container: "c-1_.x".parse().unwrap(),
            interface: "eth0@if2".parse().unwrap(),
        };
        assert_eq!(attachment(&file_name(&one)), Some(one));
        assert_eq!(
            (attachment("c"), attachment("@eth0"), attachment("c@")),
            (None, None, None)
        );
    }
}

//! Files that are called by an interface of a container.

use crate::cni::Attachment;

/// Between the two: no id of a container has it.
const BETWEEN: char = '@';

/// The name of its file.
pub fn file_name(attachment: &Attachment) -> String {
    format!("{}{BETWEEN}{}", attachment.container, attachment.interface)
}

/// Whose file it is; `None` is nobody's.
pub fn attachment(file_name: &str) -> Option<Attachment> {
    let (container, interface) = file_name.split_once(BETWEEN)?;
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

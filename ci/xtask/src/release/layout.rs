//! OCI image layouts: content by its digest, and an index. It knows no image and no chart. See
//! `image-layout.md` and `manifest.md` of the OCI image specification 1.1.

use serde_json::{Value, json};

use super::archive::{FILE, Files};
use super::sums::sha256;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Tools take the text as the name under which they import the content.
const REFERENCE: &str = "org.opencontainers.image.ref.name";

/// A layout that grows.
#[derive(Debug, Default)]
pub struct Layout {
    files: Files,
}

impl Layout {
    /// Adds content; returns its descriptor.
    pub fn add(&mut self, media_type: &str, content: Vec<u8>) -> Value {
        let digest = sha256(&content);
        let size = content.len();
        self.files
            .add(format!("blobs/sha256/{digest}"), FILE, content);
        json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": size})
    }

    /// Adds a document as JSON; returns its descriptor.
    pub fn add_json(&mut self, media_type: &str, document: &Value) -> Value {
        self.add(media_type, document.to_string().into_bytes())
    }

    /// Adds a manifest; returns its descriptor.
    pub fn add_manifest(&mut self, config: &Value, layers: &[Value], annotations: &Value) -> Value {
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config,
            "layers": layers,
            "annotations": annotations,
        });
        self.add_json(MANIFEST, &manifest)
    }

    /// Adds an index of manifests; returns its descriptor.
    pub fn add_index(&mut self, manifests: &[Value], annotations: &Value) -> Value {
        let index = json!({
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": manifests,
            "annotations": annotations,
        });
        self.add_json(INDEX, &index)
    }

    /// All files of the layout, with this descriptor as its only entry.
    pub fn finish(mut self, mut entry: Value, name: &str) -> Files {
        entry["annotations"] = json!({ REFERENCE: name });
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]});
        self.files
            .add("index.json", FILE, index.to_string().into_bytes());
        let version = json!({"imageLayoutVersion": "1.0.0"});
        self.files
            .add("oci-layout", FILE, version.to_string().into_bytes());
        self.files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_blob_has_its_digest_as_name_and_each_descriptor_names_one() {
        let mut layout = Layout::default();
        let config = layout.add_json("application/x", &json!({"a": 1}));
        let layer = layout.add("application/y", b"layer".to_vec());
        let manifest = layout.add_manifest(&config, &[layer], &json!({}));
        let index = layout.add_index(&[manifest], &json!({}));
        let files = layout.finish(index, "1.0.0");
        let blobs: Vec<_> = files
            .iter()
            .filter_map(|(path, _, content)| Some((path.strip_prefix("blobs/sha256/")?, content)))
            .collect();
        assert_eq!(blobs.len(), 4);
        for (name, content) in &blobs {
            assert_eq!(*name, sha256(content));
        }
        for (path, _, content) in files.iter() {
            let text = String::from_utf8_lossy(content);
            for (_, after) in text
                .match_indices("\"sha256:")
                .map(|(at, found)| text.split_at(at + found.len()))
            {
                let digest = &after[..64];
                assert!(blobs.iter().any(|(name, _)| *name == digest), "{path}");
            }
        }
    }
}

//! Registry names under random input (R-CLI-6).

use jaco_types::RegistryName;
use proptest::prelude::*;

proptest! {
    /// A name that is read has one spelling, which is read as itself.
    #[test]
    fn parsing_is_idempotent(text in "(https?://)?[A-Za-z0-9.:\\[\\]-]{0,30}/?") {
        if let Ok(name) = RegistryName::parse(&text) {
            prop_assert_eq!(RegistryName::parse(name.as_str()), Ok(name.clone()));
            prop_assert_eq!(RegistryName::new(name.as_str()), Ok(name));
        }
    }

    /// An image with a registry before its first slash has that registry.
    #[test]
    fn images_of_a_registry_are_recognised(
        host in "[a-z]{1,10}\\.[a-z]{2,5}(:[1-9][0-9]{0,3})?",
        path in "[a-z]{1,8}(/[a-z]{1,8})?",
        tag in "(:[0-9.]{1,5})?",
    ) {
        let registry = RegistryName::parse(&host).unwrap();
        prop_assert_eq!(RegistryName::of_image(&format!("{host}/{path}{tag}")), Some(registry));
    }

    /// Whatever an image is called, the answer is a registry that could be stored, or none.
    #[test]
    fn any_image_is_answered(image in "\\PC{0,60}") {
        if let Some(name) = RegistryName::of_image(&image) {
            prop_assert_eq!(RegistryName::new(name.as_str()), Ok(name));
        }
    }
}

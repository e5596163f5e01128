//! The kinds of personal data and secrets that are detected.

/// One kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Category {
    EmailAddress,
    PhoneNumber,
    CreditCard,
    Iban,
    IpAddress,
    Ssn,
    ApiKey,
    Jwt,
    PrivateKey,
}

/// As configs and results write them, in the order of [`Category::ALL`].
pub const NAMES: [&str; 9] = [
    "EMAIL_ADDRESS",
    "PHONE_NUMBER",
    "CREDIT_CARD",
    "IBAN",
    "IP_ADDRESS",
    "SSN",
    "API_KEY",
    "JWT",
    "PRIVATE_KEY",
];

impl Category {
    pub const ALL: [Self; 9] = [
        Self::EmailAddress,
        Self::PhoneNumber,
        Self::CreditCard,
        Self::Iban,
        Self::IpAddress,
        Self::Ssn,
        Self::ApiKey,
        Self::Jwt,
        Self::PrivateKey,
    ];

    pub fn as_str(self) -> &'static str {
        NAMES.get(self as usize).copied().unwrap_or_default()
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.as_str() == name)
    }
}

/// Which categories are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Categories(u16);

impl Categories {
    pub fn all() -> Self {
        Category::ALL.into_iter().collect()
    }

    pub fn has(self, category: Category) -> bool {
        self.0 & (1 << category as u16) != 0
    }

    pub fn has_any(self, categories: &[Category]) -> bool {
        categories.iter().any(|category| self.has(*category))
    }
}

impl FromIterator<Category> for Categories {
    fn from_iter<T: IntoIterator<Item = Category>>(categories: T) -> Self {
        Self(categories.into_iter().fold(0, |set, category| set | (1 << category as u16)))
    }
}

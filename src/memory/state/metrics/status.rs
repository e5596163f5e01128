//! HTTP statuses as label values: a fixed list of numbers, and classes such as `4xx` for the rest.
//!
//! Which status a request ended with is up to its record.

/// Statuses that are labels of their own, the most common one first.
const EXACT_STATUSES: &[(u16, &str)] = &[
    (200, "200"),
    (101, "101"),
    (201, "201"),
    (202, "202"),
    (204, "204"),
    (206, "206"),
    (246, "246"),
    (301, "301"),
    (302, "302"),
    (304, "304"),
    (307, "307"),
    (308, "308"),
    (400, "400"),
    (401, "401"),
    (402, "402"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (408, "408"),
    (409, "409"),
    (412, "412"),
    (413, "413"),
    (415, "415"),
    (422, "422"),
    (429, "429"),
    (431, "431"),
    (446, "446"),
    (499, "499"),
    (500, "500"),
    (501, "501"),
    (502, "502"),
    (503, "503"),
    (504, "504"),
    (529, "529"),
];

/// The label of a status, without allocating. Statuses outside the list become their class.
pub fn status_text(status: u16) -> &'static str {
    let exact = EXACT_STATUSES.iter().find(|(listed, _)| *listed == status);
    exact.map_or(
        match status {
            100..=199 => "1xx",
            200..=299 => "2xx",
            300..=399 => "3xx",
            400..=499 => "4xx",
            _ => "5xx",
        },
        |(_, text)| text,
    )
}

//! Sessions of the console: a cookie that carries the key with which its calls are made, sealed, so that the page never holds the key.
//!
//! The cookie counts only for requests that the page itself makes. With it a request gets the key's header, and all that follows is the same
//! as for any client: key, scopes and role are judged at each call (`dispatch`), and a key that ends takes its sessions along.
//! Nothing is stored but the sessions that were ended before their time (`ends`).

use super::super::error;
use super::super::field::{Field, Type, required};
use super::ends;
use super::person::Person;
use super::seal::{self, Purpose};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{COOKIE, HeaderValue, ORIGIN, SET_COOKIE};
use http::{HeaderMap, Method, StatusCode};
use jiff::Timestamp;
use memory::auth::control_keys;
use memory::net::inbound::client_certificate::ClientCertificate;
use memory::state::Shared;
use memory::state::snapshot::SettingsSnapshot;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;
use words::error::Error;

pub(super) const PATH: &str = "/console/session";

pub(super) const REPLY: &[Field] = &[required("object", Type::Text(20), "`console-session`.")];

/// The prefix has browsers take it only with `Secure`, for this host alone and all its paths.
const NAME: &str = "__Host-turnpike-console";
/// The header of the page's calls; `poll` for those that no one has asked for, which keep no session alive.
const HEADER: &str = "x-turnpike-console";
const POLL: &str = "poll";
/// Seconds without a call after which a session ends, and after which it ends in any case.
const IDLE: i64 = 60 * 60;
pub(super) const ABSOLUTE: i64 = 8 * IDLE;
/// The cookie is renewed after this many seconds, not at each call.
const RENEWED_AFTER: i64 = 60;
/// Browsers keep cookies of up to 4,096 bytes.
const MAX_COOKIE: usize = 3900;
/// Sessions that were ended and whose time is not over; beyond it the oldest are forgotten.
const MAX_ENDED: usize = 10_000;

/// What a cookie carries.
#[derive(Serialize, Deserialize)]
struct Session {
    id: Uuid,
    #[serde(flatten)]
    holder: Holder,
    /// Seconds since 1970, as are all times here.
    begun: i64,
    used: i64,
}

/// Whose session it is.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Holder {
    /// The text of a key or token.
    Key(String),
    Person(Person),
}

impl Holder {
    /// Makes a request one of this client.
    fn enter(&self, request: &mut Request, snapshot: &SettingsSnapshot) {
        match self {
            Self::Person(person) => {
                request.extensions_mut().insert(person.clone());
            }
            Self::Key(key) => {
                let name = snapshot.service_keys.headers.first();
                if let (Some(name), Ok(mut key)) = (name, HeaderValue::from_bytes(key.as_bytes())) {
                    key.set_sensitive(true);
                    request.headers_mut().insert(name, key);
                }
            }
        }
    }
}

impl Session {
    fn is_over(&self, now: i64) -> bool {
        now >= self.until()
    }

    fn until(&self) -> i64 {
        (self.used + IDLE).min(self.begun + ABSOLUTE)
    }

    /// The same, called again.
    fn used_at(&self, now: i64) -> Self {
        Self { id: self.id, holder: self.holder.clone(), begun: self.begun, used: now }
    }
}

/// Whether a session that a request came with goes on, for a response that takes its time.
#[derive(Clone)]
pub(crate) struct SessionWatch {
    sessions: Arc<Sessions>,
    session: Arc<Session>,
}

impl SessionWatch {
    /// Whether it was ended, or its time is over, as far as that request could know.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.session.is_over(now.as_second()) || self.sessions.has_ended(&self.session)
    }

    pub(super) fn id(&self) -> Uuid {
        self.session.id
    }

    /// Whose session it is, as a hash: nothing is stored that opens anything.
    pub(super) fn holder(&self) -> String {
        let text = match &self.session.holder {
            Holder::Key(key) => format!("key\n{key}"),
            Holder::Person(person) => format!("person\n{}", person.user),
        };
        URL_SAFE_NO_PAD.encode(digest(&SHA256, text.as_bytes()))
    }

    /// When it ends however much it is used, seconds since 1970.
    pub(super) fn ends_at_last(&self) -> i64 {
        self.session.begun + ABSOLUTE
    }
}

/// What sessions are sealed with, and which have ended.
pub(super) struct Sessions {
    shared: Arc<Shared>,
    /// For a process without a store: its sessions end with it.
    own_secret: [u8; 32],
    /// The ids of those that were ended. They are made in order of time.
    ended: Mutex<BTreeMap<Uuid, i64>>,
    /// The states of sign-ins whose code was exchanged here, and when.
    exchanged: Mutex<BTreeMap<String, i64>>,
}

impl Sessions {
    pub fn new(shared: Arc<Shared>) -> Self {
        let mut own_secret = [0; 32];
        if SystemRandom::new().fill(&mut own_secret).is_err() {
            log::warn!("the system has no random numbers: without a store the console has no sessions");
        }
        Self { shared, own_secret, ended: Mutex::default(), exchanged: Mutex::default() }
    }

    fn with_secret<T>(&self, with: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        match self.shared.store().and_then(|store| store.pepper()) {
            Some(pepper) => with(pepper.as_bytes()),
            None if self.own_secret == [0; 32] => None,
            None => with(&self.own_secret),
        }
    }

    /// The session of a request of the page.
    fn find(&self, request: &Request, now: i64) -> Option<Session> {
        if !is_of_page(request.method(), request.headers()) {
            return None;
        }
        let session = cookies(request.headers(), NAME).find_map(|text| self.open(Purpose::Session, text));
        let session: Session = serde_json::from_slice(&session?).ok()?;
        let is_ended = session.is_over(now) || self.has_ended(&session);
        (!is_ended).then_some(session)
    }

    /// The cookie of a new session, with that key of a request by which its client was identified; `None` where there is none, or it is too
    /// long.
    fn begin(&self, keys: Vec<Vec<u8>>, now: Timestamp) -> Option<HeaderValue> {
        let snapshot = self.shared.settings_arc();
        let is_good = |key: &Vec<u8>| snapshot.service_keys.identify(key, now).is_ok();
        let key = String::from_utf8(keys.into_iter().find(is_good)?).ok()?;
        let now = now.as_second();
        self.cookie(&Session { id: Uuid::now_v7(), holder: Holder::Key(key), begun: now, used: now }, now)
    }

    /// The cookie of a new session of somebody who has signed in; `None` where what it must carry is too long.
    pub fn begin_of(&self, person: Person, now: i64) -> Option<HeaderValue> {
        let holder = Holder::Person(person);
        self.cookie(&Session { id: Uuid::now_v7(), holder, begun: now, used: now }, now)
    }

    /// Whether the code of a sign-in with this state is exchanged for the first time.
    pub fn is_first(&self, state: &str, now: i64) -> bool {
        let mut exchanged = self.exchanged.lock();
        // A sign-in takes ten minutes at most, and clocks differ by one.
        exchanged.retain(|_, at| now - *at < 700);
        let is_new = !exchanged.contains_key(state);
        if is_new && exchanged.len() < MAX_ENDED {
            exchanged.insert(state.to_owned(), now);
        }
        is_new
    }

    /// The text of a cookie that is no session's.
    pub fn seal(&self, purpose: Purpose, plain: &[u8]) -> Option<String> {
        self.with_secret(|by| seal::seal(purpose, by, plain)).filter(|text| text.len() <= MAX_COOKIE)
    }

    /// What such a cookie carries, where it was sealed here.
    pub fn open(&self, purpose: Purpose, text: &str) -> Option<Vec<u8>> {
        self.with_secret(|by| seal::open(purpose, by, text))
    }

    fn has_ended(&self, session: &Session) -> bool {
        if self.ended.lock().contains_key(&session.id) {
            return true;
        }
        let store = self.shared.store();
        store.is_some_and(|store| {
            let catalog = store.catalog();
            let by_sign_in = || match &session.holder {
                Holder::Person(person) => ends::has_ended_all(&catalog, &person.user, person.begun),
                Holder::Key(_) => false,
            };
            ends::has_ended(&catalog, session.id) || by_sign_in()
        })
    }

    fn end(&self, session: &Session, now: i64) {
        let mut ended = self.ended.lock();
        ended.retain(|_, end| *end > now);
        if ended.len() >= MAX_ENDED {
            ended.pop_first();
        }
        ended.insert(session.id, session.begun + ABSOLUTE);
    }

    /// The value of `Set-Cookie` for a session; `None` where its key is too long for one.
    fn cookie(&self, session: &Session, now: i64) -> Option<HeaderValue> {
        let plain = serde_json::to_vec(session).ok()?;
        let text = self.seal(Purpose::Session, &plain)?;
        let seconds = IDLE.min(session.begun + ABSOLUTE - now);
        set_cookie(&text, seconds)
    }
}

/// Gives a request of the page the key of its session, begins and ends sessions, and renews their cookies.
pub(super) async fn carry(
    State(sessions): State<Arc<Sessions>>,
    mut request: Request,
    next: Next,
) -> Response {
    let now = Timestamp::now().as_second();
    let snapshot = sessions.shared.settings_arc();
    let is_session_route = request.uri().path() == PATH;
    let begins = is_session_route && request.method() == Method::POST;
    let ends = is_session_route && request.method() == Method::DELETE;
    let keys = control_keys(request.headers(), &snapshot.service_keys);
    let session = sessions.find(&request, now).filter(|_| keys.is_empty() && !begins).map(Arc::new);
    let is_poll = request.headers().get(HEADER).is_some_and(|value| value == POLL);
    // No route reads cookies.
    request.headers_mut().remove(COOKIE);
    if begins {
        // A session carries a key that was sent, and not one that a certificate stands for.
        request.extensions_mut().remove::<ClientCertificate>();
    }
    if let Some(session) = &session {
        session.holder.enter(&mut request, &snapshot);
        let sessions = Arc::clone(&sessions);
        request.extensions_mut().insert(SessionWatch { sessions, session: Arc::clone(session) });
    }
    let mut response = next.run(request).await;
    let cookie = match session {
        // Also one that counts for nothing at the moment.
        session if ends && (session.is_some() || response.status().is_success()) => {
            session.iter().for_each(|session| sessions.end(session, now));
            set_cookie("", 0)
        }
        _ if matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => None,
        _ if begins && response.status().is_success() => {
            let Some(cookie) = sessions.begin(keys, Timestamp::now()) else {
                let message = "The key or token is too long for a cookie, or has just ended. Sign in with a service key.";
                return error::response(Error::bad_request(message));
            };
            Some(cookie)
        }
        Some(session) if !is_poll && now - session.used >= RENEWED_AFTER => {
            sessions.cookie(&session.used_at(now), now)
        }
        _ => None,
    };
    response.headers_mut().extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    response
}

/// Whether the page itself sends it: no page of another origin can send its header or this `Sec-Fetch-Site`, and a change has an
/// `Origin`, which is compared with the host where every request to this port is (`origin_guard`).
fn is_of_page(method: &Method, headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all("sec-fetch-site").iter().peekable();
    let is_own = sites.peek().is_some() && sites.all(|site| site == "same-origin");
    let reads = matches!(*method, Method::GET | Method::HEAD);
    is_own && headers.contains_key(HEADER) && (reads || headers.contains_key(ORIGIN))
}

/// The values of a cookie. There may be several: only one of them was set here.
pub(super) fn cookies<'h>(headers: &'h HeaderMap, wanted: &str) -> impl Iterator<Item = &'h str> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(name, _)| *name == wanted).map(|(_, value)| value).take(4)
}

fn set_cookie(text: &str, seconds: i64) -> Option<HeaderValue> {
    let value = format!("{NAME}={text}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Strict");
    HeaderValue::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_over_after_an_idle_hour_and_after_eight() {
        let session =
            |used| Session { id: Uuid::nil(), holder: Holder::Key(String::new()), begun: 1000, used };
        for (used, now, is_over) in [
            (1000, 1000, false),
            (1000, 1000 + IDLE - 1, false),
            (1000, 1000 + IDLE, true),
            (1000 + ABSOLUTE - 10, 1000 + ABSOLUTE - 1, false),
            (1000 + ABSOLUTE - 10, 1000 + ABSOLUTE, true),
        ] {
            assert_eq!(session(used).is_over(now), is_over, "{used} {now}");
            assert_eq!(now >= session(used).until(), is_over, "{used} {now}: as a live tail sees it");
        }
    }

    #[test]
    fn only_cookies_of_this_name_are_looked_at_and_only_a_few() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, HeaderValue::from_static("a=b; __Host-turnpike-console=one;c=d"));
        headers.append(
            COOKIE,
            HeaderValue::from_static("x__Host-turnpike-console=no; __host-turnpike-console=no; =; x"),
        );
        let many = format!("{NAME}=more; ").repeat(9);
        headers.append(COOKIE, HeaderValue::try_from(many).unwrap());
        assert_eq!(cookies(&headers, NAME).collect::<Vec<_>>(), ["one", "more", "more", "more"]);
    }

    #[test]
    fn a_second_site_makes_a_request_foreign() {
        let is_of_page = |sites: &[&'static str]| {
            let mut headers =
                HeaderMap::from_iter([(HEADER.parse().unwrap(), HeaderValue::from_static("1"))]);
            for site in sites {
                headers.append("sec-fetch-site", HeaderValue::from_static(site));
            }
            is_of_page(&Method::GET, &headers)
        };
        assert!(is_of_page(&["same-origin"]));
        for sites in
            [&[][..], &["cross-site"], &["same-origin", "cross-site"], &["cross-site", "same-origin"]]
        {
            assert!(!is_of_page(sites), "{sites:?}");
        }
    }
}

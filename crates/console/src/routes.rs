//! Paths, headers, and access control.

use crate::questions::{Action, Part, question};
use crate::serve::Peer;
use crate::sessions::Session;
use crate::{Shared, VIEWERS_MAX};
use crate::{metrics, pages};
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HOST, LOCATION, ORIGIN, SET_COOKIE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use futures_util::stream::{self, Stream, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio_postgres::SimpleQueryMessage;

/// The longest body of a request.
const BODY_BYTES_MAX: usize = 16 << 10;
/// The longest body of an action, which may have a plan.
const PLAN_BYTES_MAX: usize = 1 << 20;
/// The time until an answer begins, with that for the body of a request.
pub(crate) const ANSWER: Duration = Duration::from_secs(60);
/// The time for the server to accept a connection while it is ready.
const READY_WITHIN: Duration = Duration::from_secs(1);

/// The headers of every answer.
const HEADERS: [(&str, &str); 4] = [
    (
        "content-security-policy",
        "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; \
         base-uri 'none'; form-action 'self'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
];

/// All paths.
pub(crate) fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/{file}", get(file))
        .route("/api/login", post(login))
        .route("/api/logout", post(logout))
        .route("/api/me", get(me))
        .route("/api/live", get(live))
        .route("/api/ask/{name}", get(ask))
        .route("/api/act", post(act).layer(DefaultBodyLimit::max(PLAN_BYTES_MAX)))
        .route("/metrics", get(scrape))
        .route("/health", get(|| async { "ok\n" }))
        .route("/ready", get(ready))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(shared.clone(), guard))
        .with_state(shared)
}

/// Accepts requests that are meant for this machine and, if they change something, come from the
/// console's own pages.
async fn guard(State(shared): Console, request: Request, next: Next) -> Response {
    let is_encrypted = shared.tls().is_some();
    let headers = request.headers();
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    // A browser has checked the name of an encrypted connection.
    if !is_encrypted && !is_here(host) {
        let why = format!("the console answers at an address of this machine, not at \"{host}\"");
        return problem(StatusCode::MISDIRECTED_REQUEST, &why);
    }
    if request.method() != Method::GET {
        let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
        let scheme = if is_encrypted { "https" } else { "http" };
        if origin.is_some_and(|origin| origin != format!("{scheme}://{host}")) {
            return problem(
                StatusCode::FORBIDDEN,
                "the request comes from a page of another origin",
            );
        }
    }
    let answer = tokio::time::timeout(ANSWER, next.run(request)).await;
    let mut response = answer.unwrap_or_else(|_| {
        let mut late = problem(StatusCode::REQUEST_TIMEOUT, "the request was not complete in time");
        late.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        late
    });
    for (name, value) in HEADERS {
        let (name, value) = (HeaderName::from_static(name), HeaderValue::from_static(value));
        response.headers_mut().insert(name, value);
    }
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// True if a `Host` names this machine by a loopback address, or as localhost.
fn is_here(host: &str) -> bool {
    let name = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
    let name = name.map_or(host, |(name, _)| name).trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The protocol has no texts with the character 0.
fn no_zero() -> Response {
    problem(StatusCode::BAD_REQUEST, "a text has the character 0")
}

fn problem(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "message": message }))).into_response()
}

/// The server's error for a statement or a log-in.
fn refused(error: &tokio_postgres::Error) -> Response {
    let Some(error) = error.as_db_error() else {
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(inner) = cause {
            text = format!("{text}: {inner}");
            cause = inner.source();
        }
        return problem(StatusCode::BAD_GATEWAY, &text);
    };
    let status = match error.code().code() {
        "28P01" | "28000" => StatusCode::UNAUTHORIZED,
        "42501" => StatusCode::FORBIDDEN,
        _ => StatusCode::BAD_REQUEST,
    };
    let body = json!({
        "message": error.message(),
        "code": error.code().code(),
        "detail": error.detail(),
        "hint": error.hint(),
    });
    (status, Json(body)).into_response()
}

impl Shared {
    fn now_us(&self) -> i64 {
        (self.options.clock)()
    }

    /// The session of a request.
    ///
    /// # Errors
    /// 401 without one; 503 while the server stops, which has ended its connection.
    async fn session(&self, headers: &HeaderMap) -> Result<Arc<Session>, Box<Response>> {
        if let Some(session) = self.sessions.of(headers, self.now_us()) {
            return Ok(session);
        }
        let refused = match self.sessions.is_known(headers) && !self.answers().await {
            true => problem(StatusCode::SERVICE_UNAVAILABLE, "the server has stopped"),
            false => problem(StatusCode::UNAUTHORIZED, "log in first"),
        };
        Err(Box::new(refused))
    }

    /// True if the server accepts connections.
    async fn answers(&self) -> bool {
        let connecting = tokio::net::TcpStream::connect(self.options.server);
        matches!(tokio::time::timeout(READY_WITHIN, connecting).await, Ok(Ok(_)))
    }
}

type Console = State<Arc<Shared>>;

/// A module, a style or a library of the pages.
async fn file(Path(name): Path<String>) -> Response {
    pages::answer(&name)
}

#[derive(Deserialize)]
struct Entry {
    token: Option<String>,
}

/// The page. The first request with the token of the link is logged in as the owner.
async fn page(
    State(shared): Console,
    Extension(Peer(from)): Extension<Peer>,
    Query(entry): Query<Entry>,
) -> Response {
    let Some(token) = entry.token else { return pages::answer("index.html") };
    if let Some(socket) = &shared.options.socket
        && shared.sessions.spend(&token)
    {
        let port = shared.options.server.port();
        let opened = shared.sessions.open_as_owner((socket, port), from, shared.now_us()).await;
        return match opened {
            Ok(cookie) => {
                (StatusCode::SEE_OTHER, [(SET_COOKIE, cookie), (LOCATION, "/".to_owned())])
                    .into_response()
            }
            Err(error) => refused(&error),
        };
    }
    (StatusCode::SEE_OTHER, [(LOCATION, "/")]).into_response()
}

#[derive(Deserialize)]
struct Login {
    user: String,
    password: String,
}

async fn login(
    State(shared): Console,
    Extension(Peer(from)): Extension<Peer>,
    Json(login): Json<Login>,
) -> Response {
    let server = shared.options.server;
    let now = shared.now_us();
    match shared.sessions.open((server, from), &login.user, &login.password, now).await {
        Ok(cookie) => ([(SET_COOKIE, cookie)], Json(json!({ "user": login.user }))).into_response(),
        Err(error) => refused(&error),
    }
}

async fn logout(State(shared): Console, headers: HeaderMap) -> Response {
    ([(SET_COOKIE, shared.sessions.close(&headers))], Json(json!({}))).into_response()
}

async fn me(State(shared): Console, headers: HeaderMap) -> Response {
    match shared.session(&headers).await {
        Ok(session) => Json(json!({ "user": session.user })).into_response(),
        Err(refused) => *refused,
    }
}

/// Rows as `{columns, rows}`, all values as texts.
async fn ask(
    State(shared): Console,
    headers: HeaderMap,
    Path(name): Path<String>,
    Query(part): Query<Part>,
) -> Response {
    let session = match shared.session(&headers).await {
        Ok(session) => session,
        Err(refused) => return *refused,
    };
    let Some(sql) = question(&name, &part) else {
        return problem(StatusCode::NOT_FOUND, &format!("there is no question \"{name}\""));
    };
    if sql.contains('\0') {
        return no_zero();
    }
    match session.client.simple_query(&sql).await {
        Ok(messages) => Json(table(&messages)).into_response(),
        Err(error) => refused(&error),
    }
}

fn table(messages: &[SimpleQueryMessage]) -> Value {
    let (mut columns, mut rows) = (Vec::new(), Vec::new());
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(described) => {
                columns = described.iter().map(|column| column.name().to_owned()).collect();
            }
            SimpleQueryMessage::Row(row) => {
                let row: Vec<Option<&str>> = (0..row.len()).map(|at| row.get(at)).collect();
                rows.push(row);
            }
            _ => {}
        }
    }
    json!({ "columns": columns, "rows": rows })
}

async fn act(State(shared): Console, headers: HeaderMap, Json(action): Json<Action>) -> Response {
    let session = match shared.session(&headers).await {
        Ok(session) => session,
        Err(refused) => return *refused,
    };
    let sql = action.sql();
    if sql.contains('\0') {
        return no_zero();
    }
    match session.client.simple_query(&sql).await {
        Ok(answer) if is_false(&answer) => {
            problem(StatusCode::BAD_REQUEST, "there is no such session any more")
        }
        Ok(_) => Json(json!({ "done": sql })).into_response(),
        Err(error) => refused(&error),
    }
}

/// True for the answer of `pg_cancel_backend` or `pg_terminate_backend` that found no session.
fn is_false(answer: &[SimpleQueryMessage]) -> bool {
    let is_false = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get(0) == Some("f"),
        _ => false,
    };
    answer.iter().any(is_false)
}

/// The last hour as one event, then an event for each sample.
async fn live(State(shared): Console, headers: HeaderMap) -> Response {
    if let Err(refused) = shared.session(&headers).await {
        return *refused;
    }
    if shared.history.viewers() >= VIEWERS_MAX {
        let why = format!("{VIEWERS_MAX} pages watch already");
        let mut refused = problem(StatusCode::SERVICE_UNAVAILABLE, &why);
        // A viewer that does not watch holds no connection.
        refused.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        return refused;
    }
    Sse::new(samples(&shared)).keep_alive(KeepAlive::default()).into_response()
}

fn samples(shared: &Shared) -> impl Stream<Item = Result<Event, Infallible>> + use<> {
    let (history, receiver) = shared.history.watch();
    let first = stream::once(async move { Ok(Event::default().event("history").data(history)) });
    let rest = stream::unfold(receiver, |mut receiver| async move {
        loop {
            match receiver.recv().await {
                Ok(line) => {
                    return Some((Ok(Event::default().event("sample").data(&*line)), receiver));
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    });
    first.chain(rest)
}

async fn scrape(State(shared): Console) -> Response {
    let text = metrics::text((shared.options.figures)());
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}

/// Ready if the server accepts connections, and can run their statements.
async fn ready(State(shared): Console) -> Response {
    if let Some(trouble) = (shared.options.trouble)() {
        return problem(StatusCode::SERVICE_UNAVAILABLE, &trouble);
    }
    let connecting = tokio::net::TcpStream::connect(shared.options.server);
    match tokio::time::timeout(READY_WITHIN, connecting).await {
        Ok(Ok(_)) => "ready\n".into_response(),
        Ok(Err(error)) => problem(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()),
        Err(_) => problem(StatusCode::SERVICE_UNAVAILABLE, "the server does not answer"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_answered() {
        for host in ["localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:8080", "127.1.2.3"] {
            assert!(is_here(host), "{host}");
        }
        for host in ["", "evil.example", "evil.example:8080", "10.0.0.1:8080", "localhost.evil:80"]
        {
            assert!(!is_here(host), "{host}");
        }
    }
}

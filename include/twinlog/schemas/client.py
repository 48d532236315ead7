"""Ask one schema registry by Confluent's REST API (docs.confluent.io, Schema Registry API reference).

Each question and each change is one request.  HTTP, TLS and logins are those of `requests`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from twinlog.config.file.providers import reveal
from twinlog.config.security.connection import RegistrySettings
from twinlog.errors import ClusterRefused, ClusterUnreachable, TerminalError, TransientError, TwinlogError
from twinlog.jsonable import Json, from_json
from twinlog.schemas.values import AVRO, Reference, Schema, Version
from twinlog.visible import visible

if TYPE_CHECKING:
    import requests

T = TypeVar("T")

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
SECONDS = (5.0, 30.0)
"""How long a connection, and then an answer, may take."""

NOT_FOUND = 404
_MORE = ("metadata", "ruleSet")
"""Keys of what a registry may keep with a schema beside its text (data contracts); each is copied as it is."""


class Registry:
    """A schema registry by HTTP; a context manager.

    Every method raises ClusterUnreachable `schema-registry-unreachable` if no address answers, TransientError if it
    answers that it cannot now, ClusterRefused `schema-registry-refused` if it does not let us, and TerminalError
    `schema-registry-answer` for an answer that does not follow the API.
    """

    def __init__(self, settings: RegistrySettings, session: requests.Session | None = None) -> None:
        import requests  # here: what copies no schemas does not pay for it

        self._settings = settings
        self._session = session or requests.Session()
        self._session.headers.update({
            "Accept": f"{CONTENT_TYPE}, application/json",
            "Content-Type": CONTENT_TYPE,
        })
        self._session.auth = _login(settings)
        if settings.certificate:
            self._session.cert = (settings.certificate, settings.key)

    def __enter__(self) -> Registry:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    @property
    def name(self) -> str:
        """Return how messages call it."""
        return self._settings.name

    def subjects(self) -> tuple[str, ...]:
        """Return the names of all subjects, also of those whose versions are all soft-deleted.

        They are asked for until an answer brings nothing new: Apicurio lists 1000 at most at once; a registry that
        knows no `offset` answers with all of them each time.
        """
        found: dict[str, None] = {}
        while True:
            behind = {"offset": len(found)} if found else {}
            page = self._ask("GET", "/subjects", query={"deleted": "true", **behind})
            if not isinstance(page, list) or not all(isinstance(it, str) for it in page):
                raise self._strange("GET /subjects", "is no list of names")
            new = [it for it in page if it not in found]
            if not new:
                return tuple(found)
            found.update(dict.fromkeys(new))

    def versions(self, subject: str, *, deleted: bool) -> tuple[int, ...]:
        """Return the numbers of a subject's versions, upwards, with or without the soft-deleted ones; () if unknown."""
        path = f"/subjects/{_in_path(subject)}/versions"
        answer = self._ask("GET", path, query={"deleted": "true"} if deleted else {}, missing=True)
        if answer is None:
            return ()
        if not isinstance(answer, list) or not all(isinstance(it, int) for it in answer):
            raise self._strange(f"GET {path}", "is no list of numbers")
        return tuple(sorted(answer))

    def version(self, subject: str, number: int) -> Version | None:
        """Return one version, also a soft-deleted one (`deleted` is not told here); None if there is none."""
        path = f"/subjects/{_in_path(subject)}/versions/{number}"
        answer = self._ask("GET", path, query={"deleted": "true"}, missing=True)
        if answer is None:
            return None
        return self._read(
            path, lambda: Version(int(answer["version"]), int(answer["id"]), read_schema(answer))
        )

    def schema(self, schema_id: int) -> Schema | None:
        """Return the schema with an id; None if the id is free."""
        path = f"/schemas/ids/{schema_id}"
        answer = self._ask("GET", path, missing=True)
        return None if answer is None else self._read(path, lambda: read_schema(answer))

    def level(self, subject: str = "") -> str | None:
        """Return the compatibility level of a subject or the registry's own; None if the subject has none."""
        return self._word(f"/config/{_in_path(subject)}".rstrip("/"), "compatibilityLevel")

    def mode(self, subject: str = "") -> str | None:
        """Return the mode of a subject or the registry's own; None if it has none, or modes are not known."""
        return self._word(f"/mode/{_in_path(subject)}".rstrip("/"), "mode")

    def set_level(self, subject: str, level: str | None) -> None:
        """Give a subject a compatibility level; None takes its own away."""
        self._give(f"/config/{_in_path(subject)}", "compatibility", level, {})

    def set_mode(self, subject: str, mode: str | None) -> None:
        """Give a subject a mode, also if it has versions (`force`); None takes its own away."""
        self._give(f"/mode/{_in_path(subject)}", "mode", mode, {"force": "true"})

    def register(self, subject: str, version: Version) -> int:
        """Register a version with its id and number, and return the id that the registry says it gave."""
        path = f"/subjects/{_in_path(subject)}/versions"
        answer = self._ask("POST", path, body=written(version))
        return self._read(path, lambda: int(answer["id"]))

    def delete(self, subject: str, number: int, *, permanent: bool = False) -> None:
        """Soft-delete a version; or delete a soft-deleted one for good."""
        path = f"/subjects/{_in_path(subject)}/versions/{number}"
        self._ask("DELETE", path, query={"permanent": "true"} if permanent else {}, missing=True)

    def delete_subject(self, subject: str) -> None:
        """Delete a subject with all its versions for good: softly first, as the API wants it."""
        path = f"/subjects/{_in_path(subject)}"
        self._ask("DELETE", path, missing=True)
        self._ask("DELETE", path, query={"permanent": "true"}, missing=True)

    def _word(self, path: str, field: str) -> str | None:
        """Return a word of an answer; None if there is no answer, as of a registry that does not know the question."""
        answer = self._ask("GET", path, missing=True)
        return None if answer is None else self._read(path, lambda: str(answer[field]))

    def _give(self, path: str, field: str, word: str | None, query: Mapping[str, str]) -> None:
        if word is None:
            self._ask("DELETE", path, missing=True)
        else:
            self._ask("PUT", path, query=query, body={field: word})

    def _read(self, path: str, read: Callable[[], T]) -> T:
        try:
            return read()
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._strange(path, "does not follow the API") from None

    def _strange(self, what: str, why: str) -> TerminalError:
        return TerminalError(
            f"{self.name} answers in a way that is not Confluent's API: {what} {why}",
            hint="see that schema.registry.url leads to the API's root, such as https://host:8081, or"
            " http://host:8080/apis/ccompat/v7 of Apicurio",
            code="schema-registry-answer",
            registry=self._settings.alias,
        )

    def _ask(
        self,
        method: str,
        path: str,
        *,
        query: Json | None = None,
        body: Json | None = None,
        missing: bool = False,
    ) -> Any:
        """Return the JSON of an answer; with `missing`, None for what is not there (404), or an answer without text."""
        answer = self._sent(method, path, query or {}, None if body is None else json.dumps(body))
        if missing and (answer.status_code == NOT_FOUND or not answer.content):
            return None
        if not 200 <= answer.status_code < 300:  # `ok` also says yes to a redirect
            raise self._refused(f"{method} {path}", answer.status_code, answer.content)
        if not answer.content:
            return None
        try:
            return answer.json()
        except ValueError:
            raise self._strange(f"{method} {path}", "is no JSON") from None

    def _sent(self, method: str, path: str, query: Json, body: str | None) -> requests.Response:
        """Send a request to the first address that answers."""
        import requests

        why = ""
        for url in self._settings.urls:
            try:
                # Said at each request: REQUESTS_CA_BUNDLE would take the place of a session's authority.
                return self._session.request(
                    method,
                    f"{url}{path}",
                    params=query,
                    data=body,
                    timeout=SECONDS,
                    allow_redirects=False,
                    verify=self._settings.ca or None,
                )
            except requests.RequestException as error:
                why = type(error).__name__  # its text may hold the address, which may be a secret
            except OSError as error:  # a file of certificates
                raise TerminalError(
                    f"{self.name}: {error.strerror or error}",
                    hint=f"check {self._settings.alias}.schema.registry.ssl.*.location",
                    code="schema-registry-refused",
                    registry=self._settings.alias,
                ) from None
        raise ClusterUnreachable(
            f"{self.name} does not answer: {why}",
            hint=f"check {self._settings.alias}.schema.registry.url, and that it runs",
            code="schema-registry-unreachable",
            registry=self._settings.alias,
        )

    def _refused(self, what: str, status: int, content: bytes) -> TwinlogError:
        text = f"{self.name} refuses {what}: {status}{_told(content)}"
        if status in {408, 429} or status >= 500:
            return TransientError(
                text, hint="try again", code="schema-registry-unreachable", registry=self._settings.alias
            )
        alias = self._settings.alias
        hints = dict.fromkeys((401, 403), f"check {alias}.schema.registry.*, and the rights of this login")
        hints[NOT_FOUND] = (
            f"{alias}.schema.registry.url has to lead to the root of Confluent's API (Apicurio: /apis/ccompat/v7)"
        )
        return ClusterRefused(
            text,
            hint=hints.get(status, ""),
            code="schema-registry-refused",
            registry=self._settings.alias,
            status=status,
        )


class _Bearer:
    """Puts a token into a request, so that no file of logins (.netrc) does."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: Any) -> Any:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _login(settings: RegistrySettings) -> Any:
    if settings.token is not None:
        return _Bearer(reveal(settings.token))
    if settings.user_info is not None:
        name, _, password = reveal(settings.user_info).partition(":")
        return name, password
    return None


def read_schema(answer: Json) -> Schema:
    """Read a schema as the API writes it.  Raises KeyError, TypeError and ValueError for other things.  Pure."""
    text = answer["schema"]
    if not isinstance(text, str):
        raise TypeError("schema")
    more = {name: answer[name] for name in _MORE if answer.get(name)}
    return Schema(
        text,
        answer.get("schemaType") or AVRO,
        tuple(_references(answer.get("references") or ())),
        json.dumps(more, sort_keys=True) if more else "",
    )


def _references(found: Sequence[Json]) -> Iterator[Reference]:
    for it in found:
        yield Reference(str(it["name"]), str(it["subject"]), int(it["version"]))


def written(version: Version) -> Json:
    """Write a version as a request to register it.  Pure."""
    schema = version.schema
    body: dict[str, Any] = {"schema": schema.text, "id": version.id, "version": version.number}
    if schema.type != AVRO:
        body["schemaType"] = schema.type
    if schema.references:
        body["references"] = [
            {"name": reference.name, "subject": reference.subject, "version": reference.version}
            for reference in schema.references
        ]
    return {**body, **(json.loads(schema.more) if schema.more else {})}


def _in_path(subject: str) -> str:
    return quote(subject, safe="")


def _told(content: bytes) -> str:
    """Return what a registry says of its refusal: its message and number, if it has them.  Pure."""
    try:
        answer = from_json(content)
        code = f" ({answer['error_code']})" if "error_code" in answer else ""
        return f": {visible(str(answer['message']))[:300]}{code}"
    except (ValueError, KeyError, TypeError):
        return ""

"""A schema registry in memory that behaves as Confluent's API says: ids, versions, modes, compatibility, soft deletes.

It answers requests of `requests` (`session`), or listens (`listening`).  `modes` and `imports` make it one that knows
no modes, or that takes the mode IMPORT and gives ids of its own all the same, as Apicurio does.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import requests
from requests.adapters import BaseAdapter

from twinlog.config.security.connection import RegistrySettings
from twinlog.lab.kafka.certificates import Certificates
from twinlog.schemas.client import Registry

NOT_PERMITTED = 42205


class Answer(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.body = status, {"error_code": code, "message": message}


@dataclass
class FakeRegistry:
    """The state of a registry; `asked` are the changes that were asked of it."""

    modes: bool = True
    imports: bool = True
    subjects: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    level: str = "BACKWARD"
    mode: str = "READWRITE"
    levels: dict[str, str] = field(default_factory=dict)
    own_modes: dict[str, str] = field(default_factory=dict)
    ids: dict[int, str] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    before: Callable[[str, str], None] = lambda _method, _path: None
    most_subjects: int = 10_000
    lock: threading.Lock = field(default_factory=threading.Lock)

    # --- what tests do as clients ---------------------------------------------------------------------------

    def add(self, subject: str, schema: str, *references: tuple[str, int], kind: str = "") -> int:
        """Register as a client does, and return the id."""
        body: dict[str, Any] = {"schema": schema}
        if kind:
            body["schemaType"] = kind
        if references:
            body["references"] = [{"name": f"{s}.v{v}", "subject": s, "version": v} for s, v in references]
        status, answer = self.answer("POST", f"/subjects/{subject}/versions", {}, body)
        assert 200 == status, answer
        return int(answer["id"])

    def facts(self) -> dict[tuple[str, int], tuple[int, str, bool]]:
        """Return every version: its id, its content, and whether it is soft-deleted."""
        return {
            (name, number): (it["id"], it["content"], it["deleted"])
            for name, versions in self.subjects.items()
            for number, it in versions.items()
        }

    # --- the API --------------------------------------------------------------------------------------------

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        """Answer one request."""
        with self.lock:
            try:
                self.before(method, path)
                if method != "GET":
                    self.asked.append((method, path))
                parts = [unquote(it) for it in path.strip("/").split("/")]
                return 200, self._route(method, parts, query, body)
            except Answer as refusal:
                return refusal.status, refusal.body

    def _route(self, method: str, parts: list[str], query: dict[str, str], body: Any) -> Any:
        match method, parts:
            case "GET", ["subjects"]:
                names = [it for it in sorted(self.subjects) if self._versions(it, query)]
                return names[int(query.get("offset", 0)) :][: self.most_subjects]
            case "GET", ["subjects", name, "versions"]:
                found = self._versions(name, query)
                if not found:
                    raise Answer(404, 40401, f"Subject '{name}' not found.")
                return sorted(found)
            case "GET", ["subjects", name, "versions", number]:
                found = self._versions(name, query)
                if int(number) not in found:
                    raise Answer(404, 40402, f"Version {number} not found.")
                it = found[int(number)]
                return {"subject": name, "version": int(number), "id": it["id"], **json.loads(it["content"])}
            case "POST", ["subjects", name, "versions"]:
                return {"id": self._register(name, body)}
            case "DELETE", ["subjects", name, "versions", number]:
                return self._delete(name, int(number), permanent=query.get("permanent") == "true")
            case "DELETE", ["subjects", name]:
                permanent = query.get("permanent") == "true"
                return [
                    self._delete(name, it, permanent=permanent) for it in list(self.subjects.get(name, {}))
                ]
            case "GET", ["schemas", "ids", number]:
                if int(number) not in self.ids:
                    raise Answer(404, 40403, f"Schema {number} not found.")
                return json.loads(self.ids[int(number)])
            case _, ["config", *name]:
                return self._config(method, name[0] if name else "", body)
            case _, ["mode", *name] if self.modes:
                return self._mode(method, name[0] if name else "", query, body)
        raise Answer(404, 404, "HTTP 404 Not Found")

    def _versions(self, name: str, query: dict[str, str]) -> dict[int, dict[str, Any]]:
        every = query.get("deleted") == "true"
        return {n: it for n, it in self.subjects.get(name, {}).items() if every or not it["deleted"]}

    def _mode_of(self, name: str) -> str:
        return self.own_modes.get(name, self.mode) if self.imports else "READWRITE"

    def _writable(self, name: str) -> None:
        if self._mode_of(name) == "READONLY":
            raise Answer(422, NOT_PERMITTED, f"Subject {name} is in read-only mode")

    def _register(self, name: str, body: dict[str, Any]) -> int:
        self._writable(name)
        kept = ("schema", "schemaType", "references", "metadata", "ruleSet")
        content = json.dumps({it: body[it] for it in kept if it in body}, sort_keys=True)
        for it in body.get("references", ()):
            if it["version"] not in self._versions(it["subject"], {}):
                raise Answer(422, 42201, f"No schema reference found for subject {it['subject']}")
        importing = self._mode_of(name) == "IMPORT"
        if ("id" in body) != importing and self.imports:
            raise Answer(422, NOT_PERMITTED, f"Subject {name} is {'' if importing else 'not '}in import mode")
        versions = self.subjects.setdefault(name, {})
        if importing:
            if self.ids.get(body["id"], content) != content:
                raise Answer(
                    422, NOT_PERMITTED, f"Overwrite new schema with id {body['id']} is not permitted."
                )
            number, given = body["version"], body["id"]
        else:
            same = [it["id"] for it in versions.values() if it["content"] == content and not it["deleted"]]
            if same:
                return int(same[0])
            known = [number for number, it in self.ids.items() if it == content]
            number, given = max(versions, default=0) + 1, (known or [max(self.ids, default=0) + 1])[0]
        versions[number] = {"id": given, "content": content, "deleted": False}
        self.ids[given] = content
        return int(given)

    def _delete(self, name: str, number: int, *, permanent: bool) -> int:
        self._writable(name)
        it = self.subjects.get(name, {}).get(number)
        if it is None:
            raise Answer(404, 40402, f"Version {number} not found.")
        used = [
            other
            for other, versions in self.subjects.items()
            for version in versions.values()
            if not version["deleted"]
            for one in json.loads(version["content"]).get("references", ())
            if (one["subject"], one["version"]) == (name, number)
        ]
        if used:
            raise Answer(422, 42206, f"One or more references exist to the schema {name} {number}")
        if not permanent:
            it["deleted"] = True
        elif not it["deleted"]:
            raise Answer(404, 40407, f"Subject '{name}' Version {number} was not deleted first")
        else:
            del self.subjects[name][number]
            if it["content"] not in [v[1] for v in self.facts().values() if v[0] == it["id"]]:
                del self.ids[it["id"]]
            if not self.subjects[name]:
                del self.subjects[name]
        return number

    def _config(self, method: str, name: str, body: Any) -> Any:
        if method == "GET":
            if not name:
                return {"compatibilityLevel": self.level}
            if name not in self.levels:
                raise Answer(
                    404, 40408, f"Subject '{name}' does not have subject-level compatibility configured"
                )
            return {"compatibilityLevel": self.levels[name]}
        self._writable(name)
        if method == "DELETE":
            return {"compatibilityLevel": self.levels.pop(name, self.level)}
        self.levels[name] = body["compatibility"]
        return body

    def _mode(self, method: str, name: str, query: dict[str, str], body: Any) -> Any:
        if method == "GET":
            if not name:
                return {"mode": self.mode}
            if name not in self.own_modes:
                raise Answer(404, 40409, f"Subject '{name}' does not have subject-level mode configured")
            return {"mode": self.own_modes[name]}
        if method == "DELETE":
            return {"mode": self.own_modes.pop(name, self.mode)}
        if body["mode"] == "IMPORT" and query.get("force") != "true" and self._versions(name, {}):
            raise Answer(422, NOT_PERMITTED, "Cannot import since found existing subjects")
        self.own_modes[name] = body["mode"]
        return body

    # --- how it is reached ----------------------------------------------------------------------------------

    def session(self) -> requests.Session:
        """Return a session whose requests this registry answers."""
        made = requests.Session()
        made.mount("http://", _Adapter(self))
        return made

    def client(self, alias: str) -> Registry:
        """Return a client that asks without HTTP: a thousandth of a second less for each question."""
        return _Direct(alias, self)

    @contextmanager
    def listening(self, tls: Certificates | None = None) -> Iterator[str]:
        """Listen at an address of this machine, with these certificates if they are given, and yield it."""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def answered(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                status, answer = registry.answer(self.command, *_split(self.path), body)
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = answered

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.server, tls.server_key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http{'s' * (tls is not None)}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _split(url: str) -> tuple[str, dict[str, str]]:
    parts = urlsplit(url)
    return parts.path, {key: values[0] for key, values in parse_qs(parts.query).items()}


class _Adapter(BaseAdapter):
    def __init__(self, registry: FakeRegistry) -> None:
        super().__init__()
        self._registry = registry

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        """Answer without a network."""
        body = json.loads(request.body) if request.body else None
        status, answer = self._registry.answer(request.method or "", *_split(request.url or ""), body)
        response = requests.Response()
        response.status_code, response.request, response.url = status, request, request.url or ""
        response._content = json.dumps(answer).encode()
        return response

    def close(self) -> None:
        """Close nothing."""


class _Direct(Registry):
    def __init__(self, alias: str, registry: FakeRegistry) -> None:
        super().__init__(RegistrySettings(alias, ("http://registry",)))
        self._registry = registry

    def _sent(self, method: str, path: str, query: Mapping[str, Any], body: str | None) -> requests.Response:
        said = {name: str(it) for name, it in query.items()}
        status, answer = self._registry.answer(method, path, said, json.loads(body) if body else None)
        response = requests.Response()
        response.status_code, response._content = status, json.dumps(answer).encode()
        return response

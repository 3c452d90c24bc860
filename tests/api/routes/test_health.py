import json
import re

import httpx

from tests.api.conftest import Service


def test_the_service_is_up_and_says_no_more(service: Service) -> None:
    for path in ("/healthz", "/readyz"):
        response = httpx.get(service.url + path)
        assert (response.status_code, response.json()) == (200, {"status": "up"})


def test_the_api_describes_itself(service: Service) -> None:
    document = httpx.get(service.url + "/openapi.json").json()
    paths, schemas = document["paths"], document["components"]["schemas"]
    assert "/v1/projects/{project}/graders/{key}/score" in paths
    body = paths["/v1/projects/{project}/graders"]["post"]["requestBody"]["content"]
    assert body["application/json"]["schema"] == {"$ref": "#/components/schemas/NewGrader"}
    assert "source" in schemas["NewGrader"]["properties"]
    assert all(name in schemas for name in re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))


def test_the_document_is_read_by_people_too(service: Service) -> None:
    """Users type API keys into the page, so it loads nothing from other hosts and sends nothing to them."""
    page = httpx.get(service.url + "/docs")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "connect-src 'self';" in policy
    loaded = re.findall(r'(?:src|href)="([^"]*)"', page.text)
    assert len(loaded) == 4
    for path in loaded:
        part = httpx.get(f"{service.url}/{path}")
        assert part.status_code == 200, path
        assert part.headers["content-security-policy"] == policy
        assert part.content
    assert "<script>" not in page.text
    start = httpx.get(service.url + "/docs/start.js").text
    assert "http" not in start
    document = httpx.get(service.url + "/openapi.json").json()
    assert document["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"  # what "Authorize" needs
    for other in ("nothing.js", "..%2f__init__.py", "swagger-ui-bundle.js/x"):
        assert httpx.get(f"{service.url}/docs/{other}").status_code == 404

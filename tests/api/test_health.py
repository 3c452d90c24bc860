import httpx

from tests.api.conftest import Service


def test_the_service_is_up_and_says_no_more(service: Service) -> None:
    for path in ("/healthz", "/readyz"):
        response = httpx.get(service.url + path)
        assert (response.status_code, response.json()) == (200, {"status": "up"})


def test_the_api_describes_itself(service: Service) -> None:
    paths = httpx.get(service.url + "/openapi.json").json()["paths"]
    assert "/v1/projects/{project}/graders/{key}/score" in paths
    body = paths["/v1/projects/{project}/graders"]["post"]["requestBody"]["content"]
    assert "source" in body["application/json"]["schema"]["properties"]
    assert httpx.get(service.url + "/docs").status_code == 200

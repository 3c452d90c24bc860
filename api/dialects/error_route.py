"""Routes whose errors have the form that another service's client expects."""

from abc import abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from api.http.problems import AWAY, ProblemError, note_away, problem_of
from storage.errors import StorageError


class ErrorRoute(APIRoute):
    """A route that returns its errors, including those of its dependencies, as `refused` formats them."""

    @abstractmethod
    def refused(self, request: Request, problem: ProblemError) -> Response:
        """Returns the response for a problem."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, wrapped to catch errors."""
        handle = super().get_route_handler()

        async def handle_or_refuse(request: Request) -> Response:
            try:
                return await handle(request)
            except (ProblemError, StorageError) as error:
                return self.refused(request, problem_of(error))
            except AWAY as error:
                note_away(request, error)
                return self.refused(request, problem_of(error))

        return handle_or_refuse

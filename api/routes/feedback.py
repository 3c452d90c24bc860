"""Feedback on the outcomes of a batch."""

from fastapi import Request

from api.access.auth import ScoresIn, key_of
from api.http import openapi
from api.http.routers import project_router
from api.intake import feedback_upload
from api.intake.batch_upload import Arrival
from api.intake.idempotency import Repeatable
from api.services import Served
from gradebox.schemas import Batch

router = project_router("batches")


@router.post("/batches/{batch_id}/feedback", status_code=202, openapi_extra=openapi.body(feedback_upload.NewFeedback))
async def create(request: Request, services: Served, project: ScoresIn, batch_id: str, repeat: Repeatable) -> Batch:
    """Have a model suggest changes to the completions of an ended batch, or to the judge that scored them. The
    suggestions are the `reason` of the outcomes of a new batch.
    """
    arrival = Arrival(services, project, services.limits_for(request), key_of(request).id, repeat)
    return await feedback_upload.take(arrival, request, batch_id)

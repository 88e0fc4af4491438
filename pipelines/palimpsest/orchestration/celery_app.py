"""What a Celery worker loads: `celery --app palimpsest.orchestration.celery_app worker`.

Its one task runs a step. The tasks of dagster-celery that run whole jobs are not registered.
"""

from palimpsest.core.setting_layers import apply_layers

apply_layers()

from dagster_celery.make_app import make_app  # noqa: E402
from dagster_celery.tasks import create_task  # noqa: E402

from palimpsest.orchestration.celery_broker import make_executor  # noqa: E402

app = make_app(make_executor().app_args())  # type: ignore[no-untyped-call]
execute_step = create_task(app)  # type: ignore[no-untyped-call]

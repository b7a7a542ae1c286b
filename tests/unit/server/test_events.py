"""The event bus: order of delivery, and events published by subscribers."""

from __future__ import annotations

from gpuemu_lsp.server.events import CheckSkipped, EventBus, ServerEvent, SubscriberFailed, TextEdited


def test_subscribers_receive_events_in_order_of_subscription():
    received: list[tuple[str, ServerEvent]] = []
    bus = EventBus()
    bus.subscribe(lambda event: received.append(("first", event)), lambda event: received.append(("second", event)))
    bus.subscribe(lambda event: received.append(("third", event)))
    event = TextEdited("k.cu")
    bus.publish(event)
    assert received == [("first", event), ("second", event), ("third", event)]


def test_an_event_published_by_a_subscriber_is_delivered_at_once():
    received: list[tuple[str, ServerEvent]] = []
    bus = EventBus()

    def first(event: ServerEvent) -> None:
        received.append(("first", event))
        if isinstance(event, TextEdited):
            bus.publish(CheckSkipped(event.path))

    bus.subscribe(first, lambda event: received.append(("second", event)))
    bus.publish(TextEdited("k.cu"))
    edited, skipped = TextEdited("k.cu"), CheckSkipped("k.cu")
    assert received == [("first", edited), ("first", skipped), ("second", skipped), ("second", edited)]


def test_a_subscriber_that_raises_is_reported_and_keeps_the_event_from_no_other(caplog):
    received: list[ServerEvent] = []
    bus, error = EventBus(), UnicodeDecodeError("utf-8", b"", 0, 1, "damaged")

    def broken(event: ServerEvent) -> None:
        raise error

    bus.subscribe(broken, received.append)
    event = TextEdited("k.cu")
    bus.publish(event)
    assert received == [event, SubscriberFailed(error)]
    assert "TextEdited could not be handled" in caplog.text

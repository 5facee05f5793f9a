from grader.v1 import problem_pb2 as _problem_pb2
from grader.v1 import report_pb2 as _report_pb2
from grader.v1 import submission_pb2 as _submission_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SubmitRequest(_message.Message):
    __slots__ = ("submission", "request_id")
    SUBMISSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    submission: _submission_pb2.Submission
    request_id: str
    def __init__(self, submission: _Optional[_Union[_submission_pb2.Submission, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class GetSubmissionRequest(_message.Message):
    __slots__ = ("name", "view")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    name: str
    view: _report_pb2.ReportView
    def __init__(self, name: _Optional[str] = ..., view: _Optional[_Union[_report_pb2.ReportView, str]] = ...) -> None: ...

class ListSubmissionsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "problem", "states")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    problem: str
    states: _containers.RepeatedScalarFieldContainer[_submission_pb2.SubmissionState]
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., problem: _Optional[str] = ..., states: _Optional[_Iterable[_Union[_submission_pb2.SubmissionState, str]]] = ...) -> None: ...

class ListSubmissionsResponse(_message.Message):
    __slots__ = ("submissions", "next_page_token")
    SUBMISSIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    submissions: _containers.RepeatedCompositeFieldContainer[_submission_pb2.Submission]
    next_page_token: str
    def __init__(self, submissions: _Optional[_Iterable[_Union[_submission_pb2.Submission, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CancelSubmissionRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class WatchSubmissionRequest(_message.Message):
    __slots__ = ("name", "after_sequence")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    after_sequence: int
    def __init__(self, name: _Optional[str] = ..., after_sequence: _Optional[int] = ...) -> None: ...

class GetProblemRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListProblemsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListProblemsResponse(_message.Message):
    __slots__ = ("problems", "next_page_token")
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    problems: _containers.RepeatedCompositeFieldContainer[_problem_pb2.Problem]
    next_page_token: str
    def __init__(self, problems: _Optional[_Iterable[_Union[_problem_pb2.Problem, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

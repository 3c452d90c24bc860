"""The API of adaptive-sdk: GraphQL at `/api/graphql`, with that SDK's words for graders and projects."""

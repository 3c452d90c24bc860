"""What adaptive-sdk speaks: GraphQL at `/api/graphql`, with that SDK's words for graders and projects."""
